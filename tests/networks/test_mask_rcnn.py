import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.ops import MultiScaleRoIAlign

from accelmark.networks.vision import mask_rcnn

NETWORK = mask_rcnn.MaskRCNNResNet50()
FULL, TINY = NETWORK.sizes["full"], NETWORK.sizes["tiny"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def module(images):
    torch.manual_seed(0)
    module = NETWORK.build(TINY).eval()
    # Untrained boxes hardly move, and all regions have nearly the same scores. With larger answers, relative
    # to what the regions have in common, suppression, clipping and classes matter.
    answer, features = module.roi_heads.box_predictor, []
    hook = module.roi_heads.box_head.register_forward_hook(lambda *call: features.append(call[2].mean(0)))
    with torch.no_grad():
        module.rpn.head.cls_logits.weight *= 30
        module.rpn.head.bbox_pred.weight *= 10
        module(list(images))
        answer.cls_score.weight *= 100
        answer.cls_score.bias.copy_(-answer.cls_score.weight @ features[0])
        answer.bbox_pred.weight *= 20
    hook.remove()
    return module


@pytest.fixture(scope="module")
def images():
    return NETWORK.inference_inputs(TINY, 3, generator())[0]


@pytest.mark.parametrize("least", [0.05, 0.6, 0.99])
def test_detections_are_torchvision_s(module, images, least, monkeypatch):
    monkeypatch.setattr(module.roi_heads, "score_thresh", least)
    detector = NETWORK.inference(module, TINY)
    with torch.no_grad():
        boxes, labels, scores, masks = detector(images)
        expected = module(list(images))
    found = (scores > 0).sum(1).tolist()
    assert found == [len(image["boxes"]) for image in expected]
    for i, image in enumerate(expected):
        n = found[i]
        torch.testing.assert_close(boxes[i, :n], image["boxes"])
        assert torch.equal(labels[i, :n], image["labels"])
        torch.testing.assert_close(scores[i, :n], image["scores"])
        pasted = paste_masks_in_image(masks[i, :n, None], boxes[i, :n], tuple(images.shape[2:]))
        torch.testing.assert_close(pasted.reshape(image["masks"].shape), image["masks"])
        # What is fewer than the number of detections is zeros.
        assert not boxes[i, n:].any()
        assert not labels[i, n:].any()
        assert not masks[i, n:].any()
    if least == 0.05:
        assert found == [TINY.detections] * 3
        assert len(labels.unique()) > 1
    elif least == 0.6:
        assert 0 < min(found) < TINY.detections


def test_regions_are_pooled_from_the_level_of_their_size():
    random = generator()
    levels = [torch.randn(2, 4, 64 >> i, 64 >> i, generator=random) for i in range(4)]
    # From far below the finest level's size to far above the coarsest's.
    side = torch.logspace(1, 3, 20, base=10).view(1, 20, 1).expand(2, -1, 2)
    corner = torch.rand(2, 20, 2, generator=random) * 100
    boxes = torch.cat([corner, corner + side], -1)
    ours = mask_rcnn.pool(levels, boxes, (7, 7))
    theirs = MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)
    features = {str(i): level for i, level in enumerate(levels)}
    torch.testing.assert_close(ours, theirs(features, list(boxes), [(256, 256)] * 2))


def test_inference_has_the_published_size():
    with torch.device("meta"):
        module = NETWORK.build(FULL)
    assert NETWORK.inference_size(FULL) == (800, 1067)
    images = torch.empty(1, 3, 800, 1088, device="meta")
    module.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        levels = list(module.backbone(images).values())
        module.rpn.head(levels)
    assert [tuple(level.shape[2:]) for level in levels] == [
        (200, 272),
        (100, 136),
        (50, 68),
        (25, 34),
        (13, 17),
    ]
    # Layer by layer, a multiplication and an addition each counted: ResNet-50 without its classifier has
    # 8.174 GFLOP for 224x224 pixels; the pyramid four 1x1 and four 3x3 convolutions; the proposal network a
    # 3x3 one and 15 answers per cell.
    cells = [200 * 272, 100 * 136, 50 * 68, 25 * 34, 13 * 17]
    body = 8.174e9 * 800 * 1088 / 224**2
    pyramid = sum(
        2 * n * 256 * (inputs + 9 * 256) for n, inputs in zip(cells, (256, 512, 1024, 2048), strict=False)
    )
    proposals = sum(2 * n * 256 * (9 * 256 + 15) for n in cells)
    assert counter.get_total_flops() == pytest.approx(body + pyramid + proposals, rel=2e-3)


def test_targets_are_coco_s():
    random = generator()
    images, targets = NETWORK.batch(FULL, 2, random)
    for image, target in zip(images, targets, strict=True):
        n = len(target["boxes"])
        assert n > 0
        assert image.shape[0] == 3
        assert min(image.shape[1:]) <= 800
        assert max(image.shape[1:]) <= 1333
        assert target["boxes"].shape == (n, 4)
        assert target["labels"].shape == (n,)
        assert target["labels"].min() >= 1
        assert target["labels"].max() < 91
        assert target["masks"].shape == (n, *image.shape[1:])
        assert target["masks"].dtype == torch.uint8
        # Each mask lies in its box and fills an ellipse's share of it.
        for (x0, y0, x1, y1), mask in zip(target["boxes"].tolist(), target["masks"], strict=True):
            y, x = mask.nonzero().T
            assert x.min() + 0.5 > x0
            assert x.max() + 0.5 < x1
            assert y.min() + 0.5 > y0
            assert y.max() + 0.5 < y1
            if (x1 - x0) * (y1 - y0) > 1000:
                share = mask.sum().item() / ((x1 - x0) * (y1 - y0))
                assert share == pytest.approx(torch.pi / 4, rel=0.05)


def test_boxes_have_coco_sizes_and_numbers():
    random = generator()
    images = [mask_rcnn.coco_like_boxes(480, 640, random) for _ in range(2000)]
    assert sum(map(len, images)) / len(images) == pytest.approx(7.3, abs=0.4)
    boxes = torch.cat(images)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    assert (area < 32**2).float().mean().item() == pytest.approx(0.41, abs=0.04)
    assert (area > 96**2).float().mean().item() == pytest.approx(0.24, abs=0.04)
