"""The classifiers of ImageNet: what each of them alone can get wrong."""

import io

import onnxruntime
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accelmark.names import facts
from accelmark.networks import registry

CLASSIFIERS = (
    "efficientnet-b0",
    "efficientnet-b4",
    "resnet50-v1",
    "resnet50-v1.5",
    "resnext101-32x4d",
    "se-resnext101-32x4d",
)


@pytest.fixture(params=CLASSIFIERS)
def network(request):
    return registry.load(request.param)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_operations_of_a_forward_pass_are_the_published_ones(network):
    config = network.sizes["full"]
    with torch.device("meta"):
        module = network.build(config).eval()
        image = torch.empty(1, 3, config.image_size, config.image_size)
    with FlopCounterMode(display=False) as counter:
        logits = module(image)
    assert logits.shape == (1, 1000)
    # B4's 4.2 G multiply-adds are of the authors' own count; everybody else's is 4.4.
    tolerance = 0.05 if network.name == "efficientnet-b4" else 0.02
    published = facts.network(network.name).forward_gflop(None)
    assert counter.get_total_flops() / 1e9 == pytest.approx(published, rel=tolerance)


def test_full_images_have_the_published_side(network):
    config = network.sizes["full"]
    images = network.batch(config, 1, generator())[0]
    assert images.shape == (1, 3, *(2 * [380 if network.name == "efficientnet-b4" else 224]))


def halving(module, name):
    """The strides of a ResNet's convolutions of this name in the first blocks of its last three stages."""
    return [getattr(stage[0], name).stride for stage in (module.layer2, module.layer3, module.layer4)]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("resnet50-v1", 2, 1),
        ("resnet50-v1.5", 1, 2),
        ("resnext101-32x4d", 1, 2),
        ("se-resnext101-32x4d", 1, 2),
    ],
)
def test_where_a_stage_halves_the_image(name, first, second):
    network = registry.load(name)
    module = network.build(network.sizes["tiny"])
    assert halving(module, "conv1") == [(first, first)] * 3
    assert halving(module, "conv2") == [(second, second)] * 3
    assert module.layer1[0].conv1.stride == module.layer1[0].conv2.stride == (1, 1)


@pytest.mark.parametrize("name", ["resnext101-32x4d", "se-resnext101-32x4d"])
def test_groups_are_32_and_their_channels_double(name):
    network = registry.load(name)
    with torch.device("meta"):
        module = network.build(network.sizes["full"])
    stages = (module.layer1, module.layer2, module.layer3, module.layer4)
    convolutions = [stage[0].conv2 for stage in stages]
    assert [each.groups for each in convolutions] == [32] * 4
    assert [each.out_channels // each.groups for each in convolutions] == [4, 8, 16, 32]
    assert [len(stage) for stage in stages] == [3, 4, 23, 3]


def test_squeeze_and_excitation_has_a_sixteenth_of_the_channels():
    network = registry.load("se-resnext101-32x4d")
    with torch.device("meta"):
        module = network.build(network.sizes["full"])
    for stage, channels in zip((module.layer1, module.layer4), (256, 2048), strict=True):
        block = stage[0].se
        assert (block.fc1.in_channels, block.fc1.out_channels) == (channels, channels // 16)


def test_mixup_mixes_images_and_labels_alike():
    network = registry.load("efficientnet-b4")
    config = network.sizes["tiny"]
    mixed, first, second, share = network.batch(config, 256, generator())
    images, labels = registry.load("efficientnet-b0").batch(config, 256, generator())
    assert torch.equal(first, labels)
    assert torch.equal(second, labels.flip(0))
    part = share[:, None, None, None]
    assert torch.allclose(mixed, part * images + (1 - part) * images.flip(0))
    assert share.min() >= 0
    assert share.max() <= 1
    # Beta(0.2, 0.2): mean 1/2, variance 1 / (4 (2 x 0.2 + 1)) = 0.179.
    assert share.mean() == pytest.approx(0.5, abs=0.08)
    assert share.var() == pytest.approx(0.179, abs=0.03)


def test_the_loss_of_a_mixed_image_is_that_of_its_mixed_label():
    network = registry.load("efficientnet-b4")
    logits = torch.randn(4, 10, generator=generator())
    first, second = torch.tensor([1, 2, 3, 4]), torch.tensor([4, 3, 2, 2])
    share = torch.tensor([0.0, 0.25, 1.0, 0.5])
    wanted = torch.zeros(4, 10) + 0.1 / 10
    for place in range(4):
        wanted[place, first[place]] += 0.9 * share[place]
        wanted[place, second[place]] += 0.9 * (1 - share[place])
    loss, _ = network.loss(torch.nn.Identity(), (logits, first, second, share), None)
    assert loss.item() == pytest.approx(
        (-(wanted * torch.log_softmax(logits, 1)).sum(1)).mean().item(), rel=1e-5
    )


def test_exported_it_answers_as_before_for_any_number_of_images(network):
    config = network.sizes["tiny"]
    torch.manual_seed(0)
    module = network.inference(network.build(config), config)
    inputs = tuple(network.inference_inputs(config, 2, generator()))
    others = tuple(network.inference_inputs(config, 5, generator(1)))
    with torch.no_grad():
        expected = module(*others)
        program = torch.export.export(module, inputs, dynamic_shapes=network.dynamic_shapes(config))
        assert torch.allclose(program.module()(*others), expected, atol=1e-5)
        file = io.BytesIO()
        torch.onnx.export(program, dynamo=True, verbose=False).save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    (answered,) = session.run(None, {session.get_inputs()[0].name: others[0].numpy()})
    assert torch.allclose(torch.from_numpy(answered), expected, atol=1e-4)
