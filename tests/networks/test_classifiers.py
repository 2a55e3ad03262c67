"""The classifiers of ImageNet: what each of them alone can get wrong."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models.efficientnet import MBConv

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


def test_the_published_parameters_are_those_of_the_size(network):
    assert network.sizes["full"].parameters == facts.network(network.name).parameters


def test_images_are_normalised_and_classes_equally_frequent(network):
    config = network.sizes["tiny"]
    images, labels = network.batch(config, 500, generator())[:2]
    assert images.mean() == pytest.approx(0, abs=0.01)
    assert images.std() == pytest.approx(1, abs=0.01)
    # 500 labels of 10 classes: 50 of each, with a deviation of 6.7.
    frequencies = torch.bincount(labels, minlength=config.classes)
    assert len(frequencies) == config.classes
    assert frequencies.min() > 25
    assert frequencies.max() < 75


def test_a_tenth_of_a_label_is_spread_over_all_classes():
    network = registry.load("resnet50-v1.5")
    logits = torch.randn(4, 10, generator=generator())
    labels = torch.tensor([1, 2, 3, 4])
    wanted = torch.full((4, 10), 0.1 / 10)
    wanted[range(4), labels] += 0.9
    loss, state = network.loss(torch.nn.Identity(), (logits, labels), None)
    naive = -(wanted * torch.log_softmax(logits, 1)).sum(1).mean()
    assert loss.item() == pytest.approx(naive.item(), rel=1e-5)
    assert state is None


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("resnet50-v1.5", torch.optim.SGD, {"momentum": 0.875, "weight_decay": 1 / 32768}),
        ("resnet50-v1", torch.optim.SGD, {"momentum": 0.875, "weight_decay": 1 / 32768}),
        ("resnext101-32x4d", torch.optim.SGD, {"momentum": 0.875, "weight_decay": 1 / 16384}),
        ("se-resnext101-32x4d", torch.optim.SGD, {"momentum": 0.875, "weight_decay": 1 / 16384}),
        ("efficientnet-b0", torch.optim.RMSprop, {"momentum": 0.9, "alpha": 0.9, "weight_decay": 1e-5}),
        ("efficientnet-b4", torch.optim.RMSprop, {"momentum": 0.9, "alpha": 0.9, "weight_decay": 1e-5}),
    ],
)
def test_the_optimiser_is_the_recipes_and_does_not_decay_batch_normalisation(name, kind, settings):
    network = registry.load(name)
    config = network.sizes["tiny"]
    module = network.build(config)
    optimizer = network.optimizer(module, config)
    assert type(optimizer) is kind
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            assert decay[id(each.weight)] == decay[id(each.bias)] == 0
        elif isinstance(each, torch.nn.Conv2d | torch.nn.Linear):
            assert decay[id(each.weight)] == settings["weight_decay"]
    for group in optimizer.param_groups:
        assert {key: group[key] for key in settings if key != "weight_decay"} == {
            key: value for key, value in settings.items() if key != "weight_decay"
        }


@pytest.mark.parametrize(("batch_size", "expected"), [(64, 64 * 0.005 / 128), (512, 0.01)])
def test_the_learning_rate_follows_the_batch_up_to_a_limit(batch_size, expected):
    network = registry.load("efficientnet-b0")
    config = dataclasses.replace(network.sizes["full"], batch_size=batch_size)
    optimizer = network.optimizer(torch.nn.Linear(1, 1), config)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)


def test_torchs_rmsprop_steps_like_keras_for_small_and_for_large_gradients():
    network = registry.load("efficientnet-b0")
    for gradient in (1e-4, 1e2):
        module = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(module.weight)
        optimizer = network.optimizer(module, network.sizes["full"])
        module.weight.grad = torch.full_like(module.weight, gradient)
        optimizer.step()
        rate = optimizer.param_groups[0]["lr"]
        keras = rate * gradient / (0.1 * gradient**2 + 0.001) ** 0.5
        assert -module.weight.item() == pytest.approx(keras, rel=0.01)


@pytest.mark.parametrize(
    ("name", "start"),
    [("resnet50-v1", 1), ("resnet50-v1.5", 1), ("resnext101-32x4d", 1), ("se-resnext101-32x4d", 0)],
)
def test_where_the_last_normalisation_of_a_block_starts(name, start):
    network = registry.load(name)
    module = network.build(network.sizes["tiny"])
    assert all((stage[-1].bn3.weight == start).all() for stage in (module.layer1, module.layer4))


def test_stochastic_depth_is_drawn_in_the_tiny_size_too():
    network = registry.load("efficientnet-b0")
    module = network.build(network.sizes["tiny"])
    blocks = [each for each in module.modules() if isinstance(each, MBConv)]
    rates = [block.stochastic_depth.p for block in blocks if block.use_res_connect]
    assert sum(0 < rate < 0.2 for rate in rates) >= 2


def test_the_shares_of_mixup_are_those_of_its_beta_distribution():
    network = registry.load("efficientnet-b4")
    share = network.batch(network.sizes["tiny"], 1000, generator())[2]
    assert share.min() >= 0
    assert share.max() <= 1
    # Beta(0.2, 0.2): mean 1/2, variance 1 / (4 (2 x 0.2 + 1)) = 0.179.
    assert share.mean() == pytest.approx(0.5, abs=0.04)
    assert share.var() == pytest.approx(0.179, abs=0.015)


def test_the_step_mixes_each_image_with_the_mirrored_one():
    network = registry.load("efficientnet-b4")
    images, labels, share = network.batch(network.sizes["tiny"], 3, generator())
    seen = []

    def module(mixed):
        seen.append(mixed)
        return torch.zeros(3, 10)

    network.loss(module, (images, labels, share), None)
    for place in range(3):
        wanted = share[place] * images[place] + (1 - share[place]) * images[2 - place]
        assert torch.allclose(seen[0][place], wanted, atol=1e-6)


def test_the_loss_of_a_mixed_image_is_that_of_its_mixed_label():
    network = registry.load("efficientnet-b4")
    logits = torch.randn(4, 10, generator=generator())
    labels, share = torch.tensor([1, 2, 3, 4]), torch.tensor([0.0, 0.25, 1.0, 0.5])
    wanted = torch.full((4, 10), 0.1 / 10)
    for place in range(4):
        wanted[place, labels[place]] += 0.9 * share[place]
        wanted[place, labels[3 - place]] += 0.9 * (1 - share[place])
    loss, _ = network.loss(lambda _: logits, (torch.zeros(4, 3, 8, 8), labels, share), None)
    naive = -(wanted * torch.log_softmax(logits, 1)).sum(1).mean()
    assert loss.item() == pytest.approx(naive.item(), rel=1e-5)
