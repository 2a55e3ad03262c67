import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accelmark.networks.catalog import parameter_count
from accelmark.networks.vision import unet_3d, unet_industrial, unet_medical

INDUSTRIAL = unet_industrial.UNetIndustrialNetwork()
MEDICAL = unet_medical.UNetMedical()
VOLUME = unet_3d.UNet3DNetwork()
NETWORKS = {network.name: network for network in (INDUSTRIAL, MEDICAL, VOLUME)}

#: Every convolution of a sample's forward pass, as (inputs, outputs, kernel's cells, cells it is applied to,
#: biases), written down from the papers and recipes; a transposed one is applied to the cells that go in.
LAYERS = {
    "unet-industrial": [
        *[(1, 32, 9, 512**2, 1), (32, 32, 9, 512**2, 1)],
        *[(32, 32, 9, 256**2, 1)] * 2,
        *[(32, 64, 9, 128**2, 1), (64, 64, 9, 128**2, 1)],
        *[(64, 128, 9, 64**2, 1), (128, 128, 9, 64**2, 1)],
        *[(128, 256, 9, 32**2, 1), (256, 256, 9, 32**2, 1), (256, 128, 4, 64**2, 1)],
        *[(256, 128, 9, 64**2, 1), (128, 64, 9, 64**2, 1), (64, 64, 4, 128**2, 1)],
        *[(128, 64, 9, 128**2, 1), (64, 32, 9, 128**2, 1), (32, 32, 4, 256**2, 1)],
        *[(64, 32, 9, 256**2, 1), (32, 16, 9, 256**2, 1), (16, 16, 4, 512**2, 1)],
        *[(48, 32, 9, 512**2, 1), (32, 32, 9, 512**2, 1), (32, 1, 1, 512**2, 1)],
    ],
    # The sizes are those of the figure in Ronneberger et al., 2015.
    "unet-medical": [
        *[(1, 64, 9, 570**2, 1), (64, 64, 9, 568**2, 1)],
        *[(64, 128, 9, 282**2, 1), (128, 128, 9, 280**2, 1)],
        *[(128, 256, 9, 138**2, 1), (256, 256, 9, 136**2, 1)],
        *[(256, 512, 9, 66**2, 1), (512, 512, 9, 64**2, 1)],
        *[(512, 1024, 9, 30**2, 1), (1024, 1024, 9, 28**2, 1), (1024, 512, 9, 28**2, 1)],
        *[(1024, 512, 9, 54**2, 1), (512, 512, 9, 52**2, 1), (512, 256, 9, 52**2, 1)],
        *[(512, 256, 9, 102**2, 1), (256, 256, 9, 100**2, 1), (256, 128, 9, 100**2, 1)],
        *[(256, 128, 9, 198**2, 1), (128, 128, 9, 196**2, 1), (128, 64, 9, 196**2, 1)],
        *[(128, 64, 9, 390**2, 1), (64, 64, 9, 388**2, 1), (64, 2, 1, 388**2, 1)],
    ],
    # Each 3x3x3 convolution has three numbers per output beside its kernel: a bias, a scale and a shift.
    "unet-3d": [
        *[(4, 32, 27, 224 * 224 * 160, 3), (32, 32, 27, 224 * 224 * 160, 3)],
        *[(32, 64, 27, 112 * 112 * 80, 3), (64, 64, 27, 112 * 112 * 80, 3)],
        *[(64, 128, 27, 56 * 56 * 40, 3), (128, 128, 27, 56 * 56 * 40, 3)],
        *[(128, 256, 27, 28 * 28 * 20, 3), (256, 256, 27, 28 * 28 * 20, 3)],
        *[(256, 320, 27, 14 * 14 * 10, 3), (320, 320, 27, 14 * 14 * 10, 3)],
        *[(320, 320, 27, 7 * 7 * 5, 3)] * 2,
        *[(320, 320, 8, 7 * 7 * 5, 0), (640, 320, 27, 14 * 14 * 10, 3), (320, 320, 27, 14 * 14 * 10, 3)],
        *[(320, 256, 8, 14 * 14 * 10, 0), (512, 256, 27, 28 * 28 * 20, 3), (256, 256, 27, 28 * 28 * 20, 3)],
        *[(256, 128, 8, 28 * 28 * 20, 0), (256, 128, 27, 56 * 56 * 40, 3), (128, 128, 27, 56 * 56 * 40, 3)],
        *[(128, 64, 8, 56 * 56 * 40, 0), (128, 64, 27, 112 * 112 * 80, 3), (64, 64, 27, 112 * 112 * 80, 3)],
        *[(64, 32, 8, 112 * 112 * 80, 0), (64, 32, 27, 224 * 224 * 160, 3), (32, 32, 27, 224 * 224 * 160, 3)],
        *[(32, 4, 1, 224 * 224 * 160, 0)],
    ],
}
#: Heads that only training uses: outputs of the coarser scales.
ONLY_TRAINING = {"unet-3d": 4 * (64 + 128 + 256)}
INPUTS = {
    "unet-industrial": (1, 1, 512, 512),
    "unet-medical": (1, 1, 572, 572),
    "unet-3d": (1, 4, 224, 224, 160),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(network):
    config = network.sizes["tiny"]
    torch.manual_seed(0)
    return config, network.build(config)


def full(network):
    config = network.sizes["full"]
    with torch.device("meta"):
        return config, network.build(config)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("unet-industrial", 1_850_305), ("unet-medical", 34_512_258), ("unet-3d", 31_197_696)],
)
def test_parameters_are_those_of_the_layers(name, parameters):
    layers = sum(outputs * (inputs * kernel + biases) for inputs, outputs, kernel, _, biases in LAYERS[name])
    assert layers + ONLY_TRAINING.get(name, 0) == parameters
    assert parameter_count(full(NETWORKS[name])[1]) == parameters


@pytest.mark.parametrize(
    ("name", "gflop"), [("unet-industrial", 36.7), ("unet-medical", 315), ("unet-3d", 3696)]
)
def test_forward_operations_are_those_of_the_layers(name, gflop):
    network = NETWORKS[name]
    config, module = full(network)
    layers = sum(2 * inputs * outputs * kernel * cells for inputs, outputs, kernel, cells, _ in LAYERS[name])
    assert layers / 1e9 == pytest.approx(gflop, rel=2e-3)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        answer = network.inference(module, config)(torch.empty(INPUTS[name], device="meta"))
    assert counter.get_total_flops() == layers
    assert answer.shape == (1, config.classes, *config.output_size)


def test_the_medical_network_with_the_papers_upsampling_has_its_number():
    _, module = full(MEDICAL)
    smaller = sum(
        m.weight.numel() * 5 // 9 for m in module.modules() if isinstance(m, torch.nn.ConvTranspose2d)
    )
    assert parameter_count(module) - smaller == 31_030_658


@pytest.mark.parametrize("name", NETWORKS)
def test_full_batch_has_the_published_shapes(name):
    network = NETWORKS[name]
    batch = network.batch(network.sizes["full"], 1, generator())
    assert batch[0].shape == INPUTS[name]
    assert network.units(batch) == network.padded_units(batch) == 1
    labels = {
        "unet-industrial": lambda: (batch[1].shape, batch[1].dtype),
        "unet-medical": lambda: (batch[1].shape, batch[1].dtype),
        "unet-3d": lambda: ([tuple(scale.shape) for scale in batch[1]], batch[1][0].dtype),
    }[name]()
    expected = {
        "unet-industrial": ((1, 1, 512, 512), torch.float32),
        "unet-medical": ((1, 388, 388), torch.int64),
        "unet-3d": ([(1, 224 // s, 224 // s, 160 // s) for s in (1, 2, 4, 8)], torch.uint8),
    }[name]
    assert labels == expected


def test_defects_are_of_the_stated_size():
    images, masks = INDUSTRIAL.batch(INDUSTRIAL.sizes["tiny"], 400, generator())
    assert set(masks.unique().tolist()) == {0.0, 1.0}
    assert masks.flatten(1).sum(1).min() > 0  # one in each image
    assert masks.mean().item() == pytest.approx(math.pi * 0.065**2, rel=0.05)
    assert images.abs().max() <= 1
    assert (images * masks).sum() / masks.sum() == pytest.approx(0.3, abs=0.02)


def test_membranes_have_the_stated_share():
    cells = unet_medical.cells(3, (572, 572), generator())
    assert (1 - cells).mean((1, 2, 3)).tolist() == pytest.approx([50_000 / 512**2] * 3, abs=0.002)
    images, labels = MEDICAL.batch(MEDICAL.sizes["full"], 2, generator())
    assert (labels == 0).float().mean().item() == pytest.approx(0.19, abs=0.03)
    assert images.abs().max() <= 1
    # The labels are of the middle of the image: there it is dark where they say membrane.
    middle = images[:, 0, 92:480, 92:480]
    assert middle[labels == 1].mean() - middle[labels == 0].mean() == pytest.approx(0.6, abs=0.03)


def test_brains_and_tumours_have_the_stated_shares():
    config = dataclasses.replace(VOLUME.sizes["full"], output_size=(56, 56, 40))
    volumes, (labels, half, *_) = VOLUME.batch(config, 100, generator())
    shares = [(labels == k).float().mean().item() for k in (1, 2, 3)]
    assert shares == pytest.approx([0.0030, 0.0110, 0.0038], rel=0.12)
    inside = volumes[:, 0] != 0
    assert inside.float().mean().item() == pytest.approx(
        138 * 169 * 138 / (224 * 224 * 160) * math.pi / 6, rel=0.01
    )
    assert not (labels.bool() & ~inside).any()
    assert volumes[0, 2][inside[0]].mean().item() == pytest.approx(0, abs=1e-5)
    assert volumes[0, 2][inside[0]].std().item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(half[3, 5, 7], labels[3, 10, 14, ::2])
    # Enhancing tumour is what the contrast agent shows.
    tumour = labels == 3
    assert volumes[:, 1][tumour].mean() > volumes[:, 0][tumour].mean() + 1


class Constant(torch.nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, _):
        return self.answer


def dice_of(probabilities, truth, smooth, power=1):
    """The dice coefficient, cell by cell."""
    shared = both = 0.0
    for p, t in zip(np.ravel(probabilities), np.ravel(truth), strict=True):
        shared += p * t
        both += p**power + t**power
    return (2 * shared + smooth) / (both + smooth)


@pytest.mark.parametrize(("scale", "chosen"), [(0.1, "entropy"), (8.0, "dice")])
def test_adaptive_loss_switches_from_cross_entropy_to_dice(scale, chosen):
    _, masks = INDUSTRIAL.batch(INDUSTRIAL.sizes["tiny"], 2, generator())
    noise = torch.randn(masks.shape, generator=generator(1))
    logits = (scale * (2 * masks - 1 + 0.3 * noise)).requires_grad_()
    loss, _ = INDUSTRIAL.loss(Constant(logits), (None, masks), None)
    p, t = logits.detach().double().sigmoid().numpy(), masks.double().numpy()
    dice = 1 - dice_of(p, t, 1)
    entropy = -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p))
    assert (dice < 0.3) == (chosen == "dice")
    assert abs(dice - entropy) > 1e-3
    assert loss.item() == pytest.approx({"dice": dice, "entropy": entropy}[chosen], rel=1e-4)
    loss.backward()
    assert logits.grad.isfinite().all()


def test_medical_loss_is_cross_entropy_and_dice_with_squares():
    labels = torch.randint(0, 2, (2, 5, 6), generator=generator())
    logits = torch.randn(2, 2, 5, 6, generator=generator(1))
    loss, _ = MEDICAL.loss(Constant(logits), (None, labels), None)
    p = logits.double().exp().numpy()
    p /= p.sum(1, keepdims=True)
    truth = np.stack([labels.numpy() == 0, labels.numpy() == 1], 1).astype(float)
    dice = np.mean([dice_of(p[b, k], truth[b, k], 1e-6, power=2) for b in range(2) for k in range(2)])
    entropy = -np.log((p * truth).sum(1)).mean()
    assert loss.item() == pytest.approx(entropy + 1 - dice, rel=1e-5)


def test_loss_of_volumes_weighs_the_heads():
    config = VOLUME.sizes["tiny"]
    _, scales = VOLUME.batch(config, 2, generator())
    random = generator(1)
    answers = [torch.randn(2, 4, *scale.shape[1:], generator=random) for scale in scales]
    loss, _ = VOLUME.loss(Constant(answers), (None, scales), None)
    expected = 0.0
    for weight, logits, labels in zip((8 / 15, 4 / 15, 2 / 15, 1 / 15), answers, scales, strict=True):
        p = logits.double().softmax(1).numpy()
        truth = np.stack([labels.numpy() == k for k in range(4)], 1).astype(float)
        dice = np.mean([dice_of(p[b, k], truth[b, k], 1e-5) for b in range(2) for k in (1, 2, 3)])
        expected += weight * (-np.log((p * truth).sum(1)).mean() - dice)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_volumes_are_answered_at_four_scales_in_training_and_at_the_finest_in_evaluation():
    config, module = tiny(VOLUME)
    (volumes,) = VOLUME.inference_inputs(config, 2, generator())
    with torch.no_grad():
        answers = module(volumes)
        finest = module.eval()(volumes)
    assert [tuple(a.shape) for a in answers] == [(2, 4, s, s, s) for s in (32, 16, 8, 4)]
    # Instance normalisation does the same in both.
    assert torch.equal(answers[0], finest)


def test_upsampling_of_the_industrial_network():
    block = unet_industrial.upsample(1, 1)
    with torch.no_grad():
        block[2].weight.copy_(torch.tensor([[[[1.0, 2.0], [4.0, 8.0]]]]))
        block[2].bias.zero_()
        out = block(torch.tensor([[[[1.0, 10.0]]]]))
    # Two rows of 1 1 10 10, and nothing below and to the right of them.
    assert out[0, 0].tolist() == [[15, 1 + 20 + 4 + 80, 150, 50], [3, 21, 30, 10]]


def test_medical_upsampling_mirrors_tensorflows():
    # TensorFlow: every input cell adds the kernel from twice its place on, and what is past 2n is cut off.
    block = unet_medical.upsample(2)[0]
    with torch.no_grad():
        block.bias.zero_()
        x = torch.randn(1, 2, 3, 4, generator=generator())
        kernel = block.weight
        whole = torch.zeros(7, 9)
        for i in range(3):
            for j in range(4):
                whole[2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += (
                    x.flip(2, 3)[0, :, i, j, None, None] * kernel.flip(2, 3)[:, 0]
                ).sum(0)
        torch.testing.assert_close(block(x)[0, 0].flip(0, 1), whole[:6, :8])


def test_middle_is_cut_evenly():
    x = torch.arange(64).view(1, 1, 8, 8)
    assert unet_medical.middle(x, (4, 6))[0, 0].tolist() == [
        [8 * r + c for c in range(1, 7)] for r in range(2, 6)
    ]


def test_rmsprop_is_tensorflows():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = unet_industrial.RMSProp([weight], lr=0.1, decay=0.9, momentum=0.8, weight_decay=0.01)
    w, square, mean, momentum = np.array([1.0, -2.0]), 0.0, 0.0, 0.0
    for step in range(5):
        optimizer.zero_grad()
        (weight**2 * (step + 1)).sum().backward()
        optimizer.step()
        g = 2 * w * (step + 1) + 0.01 * w
        square = 0.9 * square + 0.1 * g**2
        mean = 0.9 * mean + 0.1 * g
        momentum = 0.8 * momentum + 0.1 * g / np.sqrt(square - mean**2 + 1e-10)
        w = w - momentum
        assert weight.tolist() == pytest.approx(w.tolist(), rel=1e-4)


def test_rmsprop_stays_finite_where_torchs_does_not():
    def after(optimizer, weight):
        for _ in range(400):
            weight.grad = torch.linspace(1e-6, 1e-3, 1000)  # never changes
            optimizer.step()
        return weight.isfinite().all().item()

    ours, theirs = (torch.nn.Parameter(torch.ones(1000)) for _ in range(2))
    assert after(unet_industrial.RMSProp([ours], lr=1e-4, decay=0.9, momentum=0.8), ours)
    torchs = torch.optim.RMSprop([theirs], lr=1e-4, alpha=0.9, eps=1e-10, momentum=0.8, centered=True)
    assert not after(torchs, theirs)


def test_patches_lie_evenly():
    # nnU-Net's own example: 110 voxels, patches of 64, half of that apart.
    assert unet_3d.positions(110, 64, 0.5) == [0, 23, 46]
    assert unet_3d.positions(64, 64, 0.5) == [0]
    assert unet_3d.positions(96, 64, 0.5) == [0, 32]
    assert unet_3d.positions(97, 64, 0.5) == [0, 16, 33]
    with pytest.raises(ValueError, match="60 voxels"):
        unet_3d.positions(60, 64, 0.5)


def test_gaussian_is_one_in_the_middle_and_falls_off():
    weight = unet_3d.gaussian((8, 16, 8))
    assert weight.shape == (8, 16, 8)
    assert weight[4, 8, 4] == weight.max() == 1
    assert weight[4, 8 + 2, 4].item() == pytest.approx(math.exp(-0.5))  # a deviation away
    assert weight.min() > 0


def test_sliding_window_equals_a_naive_one():
    size, whole = (8, 8, 4), (13, 8, 9)
    torch.manual_seed(0)
    network = torch.nn.Conv3d(4, 3, 3, padding=1)
    volumes = torch.randn(2, 4, *whole, generator=generator())
    with torch.no_grad():
        answer = unet_3d.sliding_window(network, volumes, size)
        total, norm = np.zeros((2, 3, *whole)), np.zeros(whole)
        # 13 voxels in patches of 8, at most 4 apart: three of them; 9 in patches of 4, at most 2 apart: four.
        for x in (0, 2, 5):
            for z in (0, 2, 3, 5):
                p = network(volumes[:, :, x : x + 8, :, z : z + 4]).softmax(1).numpy()
                for i in range(8):
                    for j in range(8):
                        for k in range(4):
                            away = ((i - 4) / 1) ** 2 + ((j - 4) / 1) ** 2 + ((k - 2) / 0.5) ** 2
                            total[:, :, x + i, j, z + k] += math.exp(-away / 2) * p[:, :, i, j, k]
                            norm[x + i, j, z + k] += math.exp(-away / 2)
    np.testing.assert_allclose(answer.numpy(), total / norm, rtol=1e-4)
    assert answer.sum(1).numpy() == pytest.approx(1.0, abs=1e-5)


def test_one_patch_is_the_networks_answer():
    config, module = tiny(VOLUME)
    (volumes,) = VOLUME.inference_inputs(config, 2, generator())
    with torch.no_grad():
        expected = module.eval()(volumes).softmax(1)
        torch.testing.assert_close(unet_3d.sliding_window(module, volumes, config.output_size), expected)


@pytest.mark.parametrize("network", [INDUSTRIAL, MEDICAL])
def test_answers_are_probabilities(network):
    config, module = tiny(network)
    inputs = network.inference_inputs(config, 2, generator())
    with torch.no_grad():
        answer = network.inference(module, config)(*inputs)
        logits = module(*inputs)
    assert not module.training  # no dropout in it
    if network is INDUSTRIAL:
        torch.testing.assert_close(answer, logits.sigmoid())
    else:
        torch.testing.assert_close(answer, logits.softmax(1))
