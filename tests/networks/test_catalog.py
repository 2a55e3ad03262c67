import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accelmark.job import Job
from accelmark.names import facts
from accelmark.networks import catalog, registry
from accelmark.networks.base import Config, Network
from accelmark.networks.lstm import LSTM


def test_catalog_is_current():
    assert catalog.read(catalog.PATH) == catalog.generate(), "run `python -m accelmark.networks.catalog`"


def test_catalog_file_is_as_it_would_be_written():
    assert catalog.PATH.read_text(encoding="utf-8") == catalog.render(catalog.read(catalog.PATH))


def test_entries_are_sorted_and_loadable():
    names = [entry.name for entry in catalog.read(catalog.PATH)]
    assert names == sorted(names)
    for name in names:
        assert registry.load(name).name == name


def test_check_writes_nothing_and_says_what_is_wrong(monkeypatch, tmp_path):
    said, generated = [], catalog.read(catalog.PATH)
    monkeypatch.setattr(catalog, "generate", lambda: generated)
    monkeypatch.setattr(catalog, "PATH", tmp_path / "catalog.json")
    assert catalog.main(["--check"], said.append) == 1
    assert "out of date" in said[-1]
    assert not catalog.PATH.exists()
    assert catalog.main([], said.append) == 0
    assert catalog.main(["--check"], said.append) == 0
    catalog.PATH.write_text("[", encoding="utf-8")
    assert catalog.main(["--check"], said.append) == 1


def test_an_lstm_is_counted_with_all_its_steps():
    layer, x = LSTM(6, 10).to("meta"), torch.zeros(3, 7, 6, device="meta", requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        output = layer(x)
        forward = counter.get_total_flops()
        output.sum().backward()
    assert output.shape == (3, 7, 10)
    assert forward == 2 * 3 * 7 * 4 * 10 * (6 + 10)
    assert counter.get_total_flops() == 3 * forward


class Stepping(Network):
    """A product of 5 x 5 for each step, and one of 5 x 7 for each sample."""

    name, domain = "stepping", "speech"
    sizes = {"tiny": Config(batch_size=4)}

    def build(self, config):
        return torch.nn.ModuleList([torch.nn.Linear(5, 5), torch.nn.Linear(5, 7)])

    def batch(self, config, batch_size, generator):
        return torch.zeros(batch_size, 40, 5)

    def units(self, batch):
        return len(batch)

    def steps(self, batch):
        return batch.shape[1]

    def first_steps(self, batch, steps):
        assert steps <= 16
        return batch[:, :steps]

    def loss(self, module, batch, state):
        x = batch[:, 0]
        for step in batch.unbind(1):
            x = module[0](x + step)
        return module[1](x).sum(), None

    def optimizer(self, module, config):
        return torch.optim.SGD(module.parameters())

    def inference_inputs(self, config, batch_size, generator):
        return (torch.zeros(batch_size, 40, 5),)


def test_steps_alike_are_counted_by_a_few_of_them():
    network = Stepping()
    taken = catalog.cost(network, network.sizes["tiny"])
    # Three products each, but for the first step's input, which needs no gradient.
    assert taken.flops == 3 * 2 * (40 * 25 + 35) - 2 * 25
    network.steps = lambda batch: None
    assert catalog.cost(network, network.sizes["tiny"]) == taken


def naive_backward_flops(layer, inputs):
    """Operations of both gradients, one product and one sum for each term."""
    output = layer(inputs)
    filters = layer.weight[0].numel()
    side = inputs if isinstance(layer, torch.nn.ConvTranspose2d) else output
    return 2 * 2 * side.numel() * filters


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv2d(8, 12, 3, stride=2, padding=1),
        torch.nn.Conv2d(8, 12, 3, groups=4),
        torch.nn.Conv2d(8, 8, 3, groups=8, bias=False),
        torch.nn.ConvTranspose2d(8, 12, 2, stride=2),
        torch.nn.ConvTranspose2d(8, 12, 3, stride=2, groups=4),
    ],
)
def test_the_backward_pass_of_a_convolution_costs_two_forward_passes(layer):
    inputs = torch.randn(3, 8, 9, 9, requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        output = layer(inputs)
    forward = counter.get_total_flops()
    mapping = {torch.ops.aten.convolution_backward: catalog.convolution_backward_flops}
    counter = FlopCounterMode(display=False, custom_mapping=mapping)
    with counter:
        output.sum().backward()
    assert counter.get_total_flops() == 2 * forward == naive_backward_flops(layer, inputs)


@pytest.mark.parametrize("name", registry.catalog())
def test_training_takes_three_times_the_published_forward_pass(name):
    published, size = facts.network(name).gflop, registry.entry(name).sizes["full"]
    if isinstance(published, dict):
        published = published.get(str(size.sequence_length))
    if published is not None:
        assert size.flops_per_sample == pytest.approx(3e9 * published, rel=0.07)


def test_memory_is_what_a_hand_counts():
    # SGD with momentum: weights and momenta. Adam has two moments.
    resnet = registry.entry("resnet50-v1.5").sizes["full"]
    assert resnet.state_bytes == pytest.approx(2 * 4 * 25_557_032, rel=3e-3)
    bert = registry.entry("bert-base").sizes["full"]
    assert bert.state_bytes == pytest.approx(3 * 4 * 108_893_186, rel=3e-3)
    # U-Net keeps each convolution's input and each activation; the first scale has most of them: 572 x 572
    # pixels, less two for each convolution, in 64 maps of 4 bytes.
    unet = registry.entry("unet-medical").sizes["full"]
    first = 4 * 64 * (570**2 + 568**2 + 390**2 + 388**2) + 4 * 128 * 392**2
    assert first < unet.kept_bytes_per_sample < 6 * first


@pytest.mark.parametrize(
    ("batch_size", "precision", "gib"),
    # Weights and two moments, and 0.478 GiB a sequence, which is more than the gradients.
    [
        (1, "fp32", 3 * 0.4057 + 0.478),
        (8, "fp32", 3 * 0.4057 + 8 * 0.478),
        (8, "bf16", 3 * 0.4057 + 4 * 0.478),
    ],
)
def test_memory_of_a_job(batch_size, precision, gib):
    job = Job(network="bert-base", batch_size=batch_size, precision=precision, sequence_length=384)
    assert registry.entry("bert-base").memory_gib(job) == pytest.approx(gib, rel=0.01)
    long = job.model_copy(update={"sequence_length": 512})
    assert registry.entry("bert-base").memory_gib(long) is None


def flops(name, size="full"):
    return registry.entry(name).sizes[size].flops_per_sample


def test_resnet_flops_are_three_forward_passes_of_4_09_billion_multiply_adds():
    # The backward pass costs two forward passes, but for the first layer's input.
    assert flops("resnet50-v1.5") == pytest.approx(3 * 2 * 4.09e9, rel=0.03)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("transformer-xl-base", "full"),
        ("transformer-xl-base", "full-softmax"),
        ("transformer-xl-large", "full"),
        ("transformer-xl-large", "full-softmax"),
    ],
)
def test_transformer_xl_flops_are_what_a_hand_counts(name, size):
    config = registry.load(name).sizes[size]
    queries, keys = config.sequence_length, config.sequence_length + config.memory_length
    width, inner = config.width, config.heads * config.head_width
    layer = 2 * queries * width * inner  # query and output
    layer += 2 * keys * width * inner + keys * width * inner  # keys and values, positions
    layer += 3 * queries * keys * inner  # content scores, position scores, mixing the values
    layer += 2 * queries * width * config.inner_width
    if config.cutoffs:
        softmax = queries * width * (config.cutoffs[0] + len(config.cutoffs))
        # Tails: the shares of tokens in the three rare clusters times what scoring there costs.
        for share, words, divisor in [
            (0.012, 20_000, config.divisor),
            (0.019, 160_000, config.divisor**2),
            (0.0024, 67_738, config.divisor**3),
        ]:
            softmax += share * queries * words * width // divisor
    else:
        softmax = queries * width * config.vocabulary
    forward = 2 * (config.layers * layer + softmax)
    assert flops(name, size) == pytest.approx(3 * forward, rel=0.10)
