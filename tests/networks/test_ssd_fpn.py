from dataclasses import replace

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from torchvision.ops import nms

from accelmark.networks.vision import ssd, ssd320_resnet50_fpn
from accelmark.networks.vision.ssd320_resnet50_fpn import anchors, retina_loss

NETWORK = ssd320_resnet50_fpn.SSD320ResNet50FPN()
FULL, TINY = NETWORK.sizes["full"], NETWORK.sizes["tiny"]


@pytest.fixture(scope="module")
def on_meta():
    with torch.device("meta"):
        return NETWORK.build(FULL).eval()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_full_size_has_the_published_shapes(on_meta):
    assert FULL.maps() == [40, 20, 10, 5, 3]
    offsets, logits = on_meta(torch.empty(2, 3, 320, 320, device="meta"))
    assert offsets.shape == (2, 12804, 4)
    # COCO's 90 category numbers and the background's slot.
    assert logits.shape == (2, 12804, 91)


def test_parameters_by_hand(on_meta):
    body = 25_557_032 - 1000 * 2049
    projections = sum((channels + 1) * 256 for channels in (512, 1024, 2048))
    convolution, normalisation = 256 * 256 * 9, 2 * 256
    pyramid = projections + 4 * (convolution + normalisation)
    answers = (256 * 9 + 1) * 6 * (4 + 91)
    heads = 2 * 4 * (convolution + 5 * normalisation) + answers
    assert sum(p.numel() for p in on_meta.parameters()) == body + pyramid + heads == 32_840_570

    # As Open Model Zoo counts ssd_resnet50_v1_fpn_coco: a head of its own for each level, and normalisation
    # folded into one bias per channel.
    folded = (53_120 + 4 * 512 + 2 * 4 * 5 * 512) // 2
    unshared = 4 * (2 * 4 * convolution + answers)
    assert (body + pyramid + heads + unshared - folded) / 1e6 == pytest.approx(56.9326, abs=1e-4)
    channels = [m.num_features for m in on_meta.body.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert 2 * sum(channels) == 53_120


@pytest.mark.parametrize(
    # Published by Open Model Zoo at 640x640, with the decoding; the other is counted here, so that a changed
    # layer is noticed.
    ("side", "gflop", "tolerance"),
    [(640, 178.6807, 3e-3), (320, 44.616, 1e-4)],
)
def test_forward_operations_per_image(side, gflop, tolerance):
    with torch.device("meta"):
        module = NETWORK.build(replace(FULL, image_size=side)).eval()
        images = torch.empty(1, 3, side, side)
    with FlopCounterMode(display=False) as counter:
        module(images)
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, rel=tolerance)


def test_anchors_are_where_tensorflow_puts_them():
    boxes = anchors(FULL) * 320
    assert boxes.shape == (12804, 4)
    # The first cell: 32 pixels and half an octave more in the middle of 8, then twice as wide as high.
    torch.testing.assert_close(boxes[0], torch.tensor([4.0, 4.0, 32.0, 32.0]))
    torch.testing.assert_close(boxes[1, 2:], torch.full((2,), 32 * 2**0.5))
    torch.testing.assert_close(boxes[2, 2:], torch.tensor([32 * 2**0.5, 32 / 2**0.5]))
    torch.testing.assert_close(boxes[4, 2:], torch.tensor([32 / 2**0.5, 32 * 2**0.5]))
    # All shapes of a cell, then the next cell of the row, then the next row.
    torch.testing.assert_close(boxes[6, :2], torch.tensor([12.0, 4.0]))
    torch.testing.assert_close(boxes[6 * 40, :2], torch.tensor([4.0, 12.0]))
    # 320 pixels hold five cells of 64, begun in their middle, but not three of 128, begun at the corner.
    torch.testing.assert_close(boxes[-6 * (25 + 9), :2], torch.tensor([32.0, 32.0]))
    centres = boxes[-6 * 9 :: 6, :2]
    torch.testing.assert_close(centres, torch.cartesian_prod(*[torch.tensor([0.0, 128, 256])] * 2).flip(1))
    torch.testing.assert_close(boxes[-6 * 9, 2:], torch.full((2,), 512.0))


def test_heads_lie_in_the_order_of_the_anchors():
    # A head that answers with its channel number and the sum of its input shows which output belongs where.
    torch.manual_seed(0)
    head = ssd320_resnet50_fpn.Head(replace(TINY, head_layers=0), 4).eval()
    marks = [torch.zeros(1, TINY.channels, side, side) for side in TINY.maps()]
    marks[1][0, :, 2, 4] = 1000.0
    with torch.no_grad():
        head.answer.weight.zero_()
        head.answer.weight[:, 0, 1, 1] = 1.0
        head.answer.bias.copy_(torch.arange(24))
        offsets = head(marks)[0]
    assert len(offsets) == len(anchors(TINY))
    torch.testing.assert_close(offsets[:6], torch.arange(24.0).view(6, 4))
    row = 6 * (12**2 + 2 * 6 + 4)
    torch.testing.assert_close(offsets[row : row + 6], 1000 + torch.arange(24.0).view(6, 4))
    assert (offsets > 500).sum() == 24
    torch.testing.assert_close(anchors(TINY)[row, :2] * 96, torch.tensor([4.5 * 16, 2.5 * 16]))


def test_a_convolution_over_an_even_side_is_padded_at_the_end():
    torch.manual_seed(0)
    pyramid = ssd320_resnet50_fpn.Pyramid(TINY).eval()
    maps = [torch.randn(1, 16 * 4 * 2**i, side, side) for i, side in ((1, 40), (2, 20), (3, 10))]
    with torch.no_grad():
        levels = pyramid(maps)
        assert [level.shape[-1] for level in levels] == [40, 20, 10, 5, 3]
        for level, coarser, convolution, before in ((2, 3, 0, 0), (3, 4, 1, 1)):
            weight = pyramid.coarser[convolution][0].weight
            corner = levels[level][0, :, : 3 - before, : 3 - before]
            first = (weight[:, :, before:, before:] * corner).sum((1, 2, 3))
            # Fresh normalisation divides by the root of 1.001.
            expected = (first / 1.001**0.5).clamp(0, 6)
            torch.testing.assert_close(levels[coarser][0, :, 0, 0], expected)


def test_coarser_levels_are_added_to_finer_ones():
    torch.manual_seed(0)
    pyramid = ssd320_resnet50_fpn.Pyramid(TINY).eval()
    maps = [torch.randn(1, 16 * 4 * 2**i, side, side) for i, side in ((1, 8), (2, 4), (3, 2))]
    with torch.no_grad():
        top, middle, _ = (p(x) for p, x in zip(pyramid.projections[::-1], maps[::-1], strict=True))
        levels = pyramid(maps)
        torch.testing.assert_close(levels[2], top)  # not smoothed
        twice = top.repeat_interleave(2, 2).repeat_interleave(2, 3)
        torch.testing.assert_close(levels[1], pyramid.smoothings[1](middle + twice))


def test_loss_equals_the_papers():
    random = generator()
    offsets = torch.randn(2, 50, 4, generator=random)
    target = torch.randn(2, 50, 4, generator=random)
    logits = torch.randn(2, 50, 6, generator=random, dtype=torch.float64)
    labels = torch.zeros(2, 50, dtype=torch.long)
    labels[0, [3, 40]] = torch.tensor([1, 5])
    labels[1, 7] = 2

    expected = 0.0
    for n in range(2):
        for a in range(50):
            for c in range(6):
                p = logits[n, a, c].sigmoid().item()
                # Slot 0 is the background's, and never right.
                right = labels[n, a].item() == c and c > 0
                p = p if right else 1 - p
                weight = 0.25 if right else 0.75
                expected -= weight * (1 - p) ** 2 * torch.tensor(p).log().item()
            if labels[n, a] > 0:
                expected += functional.smooth_l1_loss(offsets[n, a], target[n, a]).item()
    assert retina_loss(offsets, logits, target, labels).item() == pytest.approx(expected / 3, rel=1e-5)


def test_an_empty_batch_has_a_finite_loss_of_the_background():
    zeros = torch.zeros(1, 20, 4)
    loss = retina_loss(zeros, torch.zeros(1, 20, 5), zeros, torch.zeros(1, 20, dtype=torch.long))
    assert loss.item() == pytest.approx(20 * 5 * 0.75 * 0.25 * torch.tensor(2.0).log().item(), rel=1e-5)


def test_an_untrained_network_sees_a_hundredth_everywhere():
    torch.manual_seed(0)
    module = NETWORK.build(TINY)
    with torch.no_grad():
        _, logits = module(NETWORK.inference_inputs(TINY, 2, generator())[0])
    assert logits.sigmoid().mean().item() == pytest.approx(0.01, rel=0.1)


def test_batch_has_targets_for_its_boxes():
    images, target, labels = NETWORK.batch(FULL, 8, generator())
    assert images.shape == (8, 3, 320, 320)
    assert target.shape == (8, 12804, 4)
    assert labels.shape == (8, 12804)
    assert labels.max() <= 90
    # Every image has an object, and every object an anchor, yet hardly any anchor an object.
    assert (labels > 0).any(1).all()
    assert (labels > 0).float().mean() < 0.03
    # Anchors without an object are their own target.
    torch.testing.assert_close(target[labels == 0], torch.zeros_like(target[labels == 0]), rtol=0, atol=1e-4)
    assert NETWORK.units((images, target, labels)) == NETWORK.padded_units((images, target, labels)) == 8


def test_the_earlier_of_two_boxes_has_the_anchor(monkeypatch):
    same = torch.tensor([[0.40, 0.40, 0.43, 0.43], [0.40, 0.40, 0.43, 0.43]])
    monkeypatch.setattr(ssd320_resnet50_fpn, "coco_like_boxes", lambda random: same)
    random = generator(3)
    names = []
    monkeypatch.setattr(
        torch, "randint", lambda *size, generator: names.append(torch.tensor([4, 9])) or names[-1]
    )
    _, _, labels = NETWORK.batch(TINY, 1, random)
    assert set(labels.unique().tolist()) == {0, 4}


@pytest.fixture(scope="module")
def detector():
    torch.manual_seed(0)
    module = NETWORK.build(TINY)
    # Untrained answers hardly differ: larger ones, from normalisation that knows its activations.
    for normalise in module.modules():
        if isinstance(normalise, torch.nn.BatchNorm2d):
            normalise.momentum = 1.0
    with torch.no_grad():
        module.label.answer.weight *= 20
        module.box.answer.weight *= 20
        module(NETWORK.inference_inputs(TINY, 4, generator(1))[0])
    return NETWORK.inference(module, TINY)


def test_detections_equal_those_class_by_class(detector):
    images = NETWORK.inference_inputs(TINY, 2, generator())[0]
    with torch.no_grad():
        boxes, labels, scores = detector(images)
        offsets, logits = detector.module(images)
    for i in range(2):
        places = ssd.decode(offsets[i], anchors(TINY))
        found = []
        for label in range(1, 11):
            score = logits[i, :, label].sigmoid()
            for place in nms(places, score, 0.6)[:100].tolist():
                found.append((score[place].item(), label, places[place].clamp(0, 1).tolist()))
        expected = sorted(found, key=lambda one: -one[0])[:20]
        torch.testing.assert_close(scores[i], torch.tensor([one[0] for one in expected]))
        assert labels[i].tolist() == [one[1] for one in expected]
        torch.testing.assert_close(boxes[i], torch.tensor([one[2] for one in expected]))
