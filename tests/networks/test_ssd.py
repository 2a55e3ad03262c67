import pytest
import torch
from torch.nn import functional

from accelmark.networks.vision import ssd300_resnet50 as ssd


@pytest.fixture(scope="module")
def defaults():
    return ssd.default_boxes(ssd.FULL)


def corners(boxes):
    return torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)


def test_there_are_8732_default_boxes(defaults):
    assert defaults.shape == (8732, 4)
    assert defaults.min() > 0
    assert defaults.max() <= 1


def test_default_boxes_are_where_the_paper_puts_them(defaults):
    # The first map's first cell: 21 pixels at the middle of the first 8 pixels.
    expected = torch.tensor([4 / 300, 4 / 300, 21 / 300, 21 / 300])
    torch.testing.assert_close(defaults[0], expected)
    # One to the right, then one row down.
    torch.testing.assert_close(defaults[1, :2], torch.tensor([12 / 300, 4 / 300]))
    torch.testing.assert_close(defaults[38, :2], torch.tensor([4 / 300, 12 / 300]))
    # The second shape is the square between this scale and the next, the third twice as wide as high.
    torch.testing.assert_close(defaults[38 * 38, 2:], torch.full((2,), (21 * 45) ** 0.5 / 300))
    wide = defaults[2 * 38 * 38]
    assert (wide[2] / wide[3]).item() == pytest.approx(2)
    # The last map has one cell in the middle; boxes that would leave the image are cut to its size.
    torch.testing.assert_close(defaults[-4], torch.tensor([0.5, 0.5, 261 / 300, 261 / 300]))
    torch.testing.assert_close(defaults[-2], torch.tensor([0.5, 0.5, 1.0, 261 / 300 / 2**0.5]))


def test_heads_lie_in_the_order_of_the_default_boxes():
    # A head that answers with its channel number shows which output belongs to which shape.
    torch.manual_seed(0)
    module = ssd.SSD300(ssd.TINY).eval()
    with torch.no_grad():
        for head in module.box:
            head.weight.zero_()
            head.bias.copy_(torch.arange(len(head.bias)))
        offsets, _ = module(torch.randn(1, 3, 64, 64))
    start = 0
    for side, shapes in zip(ssd.TINY.maps, ssd.TINY.boxes_per_cell(), strict=True):
        block = offsets[0, :, start : start + side * side * shapes].view(4, shapes, side * side)
        expected = torch.arange(4 * shapes, dtype=torch.float).view(4, shapes, 1).expand_as(block)
        assert torch.equal(block, expected)
        start += side * side * shapes


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def test_matching_equals_a_loop():
    random = torch.Generator().manual_seed(3)
    defaults = ssd.default_boxes(ssd.TINY).double()
    # A small box inside two equal default boxes overlaps both the same; moved a little, none are equal.
    defaults = defaults + 1e-3 * torch.rand(defaults.shape, generator=random, dtype=torch.double)
    places = corners(defaults)
    for _ in range(5):
        boxes = ssd.coco_like_boxes(random).double()
        labels = torch.randint(1, 11, (len(boxes),), generator=random)
        table = [[overlap(box, place) for place in places.tolist()] for box in boxes.tolist()]
        expected = []
        for d in range(len(places)):
            best = max(range(len(boxes)), key=lambda b: table[b][d])
            expected.append(best if table[best][d] > 0.5 else None)
        for b, row in enumerate(table):
            expected[max(range(len(places)), key=row.__getitem__)] = b

        matched, matched_labels = ssd.match(boxes, labels, defaults)
        for d, b in enumerate(expected):
            assert matched_labels[d] == (0 if b is None else labels[b])
            torch.testing.assert_close(matched[d], places[d] if b is None else boxes[b])
        assert set(matched_labels[matched_labels > 0].tolist()) <= set(labels.tolist())


def test_every_box_is_matched_however_badly_it_fits(defaults):
    sliver = torch.tensor([[0.1, 0.5, 0.9, 0.502]])
    _, labels = ssd.match(sliver, torch.tensor([7]), defaults)
    assert labels.sum() == 7


def test_encoding_and_decoding_are_inverse(defaults):
    boxes = corners(torch.rand(8732, 4, generator=torch.Generator().manual_seed(0)).clamp(min=0.05))
    torch.testing.assert_close(ssd.decode(ssd.encode(boxes, defaults), defaults), boxes, rtol=1e-4, atol=1e-5)


def test_a_default_box_is_encoded_as_zero(defaults):
    offsets = ssd.encode(corners(defaults), defaults)
    torch.testing.assert_close(offsets, torch.zeros_like(offsets), rtol=0, atol=1e-4)


def test_three_hardest_negatives_count_per_positive():
    random = torch.Generator().manual_seed(0)
    offsets = torch.randn(2, 4, 100, generator=random)
    target = torch.randn(2, 4, 100, generator=random)
    logits = torch.randn(2, 5, 100, generator=random, dtype=torch.float64).requires_grad_()
    labels = torch.zeros(2, 100, dtype=torch.long)
    labels[0, [3, 50]] = torch.tensor([1, 4])
    labels[1, [7, 8, 9, 10]] = 2

    loss = ssd.multibox_loss(offsets, logits, target, labels)
    expected = 0.0
    for n, positives in enumerate((2, 4)):
        entropy = functional.cross_entropy(logits[n].T, labels[n], reduction="none")
        positive = labels[n] > 0
        hardest = entropy[~positive].sort(descending=True).values[: 3 * positives].sum()
        box = functional.smooth_l1_loss(offsets[n][:, positive], target[n][:, positive], reduction="sum")
        expected = expected + (box + entropy[positive].sum() + hardest) / positives / 2
    assert loss.item() == pytest.approx(expected.item())

    loss.backward()
    with_gradient = logits.grad.abs().sum(1).gt(0).sum(1)
    assert with_gradient.tolist() == [2 + 3 * 2, 4 + 3 * 4]


def test_an_image_without_boxes_adds_nothing():
    zeros = torch.zeros(1, 4, 20)
    loss = ssd.multibox_loss(zeros, torch.randn(1, 5, 20), zeros, torch.zeros(1, 20, dtype=torch.long))
    assert loss.item() == 0


def test_boxes_have_coco_sizes_and_numbers():
    random = torch.Generator().manual_seed(0)
    images = [ssd.coco_like_boxes(random) for _ in range(2000)]
    assert sum(map(len, images)) / len(images) == pytest.approx(7.3, abs=0.4)
    boxes = torch.cat(images)
    assert boxes.min() >= 0
    assert boxes.max() <= 1
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) * 640 * 480
    assert (area < 32**2).float().mean().item() == pytest.approx(0.41, abs=0.04)
    assert (area > 96**2).float().mean().item() == pytest.approx(0.24, abs=0.04)
