"""Mask R-CNN (He et al., 2017, arXiv:1703.06870) with ResNet-50 and a feature pyramid, on COCO-like images.

torchvision's `MaskRCNN`, put together as its `maskrcnn_resnet50_fpn` does for training from a pretrained
body: batch normalisation frozen, the stem and the first stage too. Its published count, 44,401,393, means 91
classes (COCO's category numbers with their gaps, and the background) and frozen normalisation, whose scales
and shifts are no parameters.

Against NVIDIA's recipe: the same body, pyramid, heads, image sizes and images per accelerator, but 81
classes there, strides in the 1x1 convolutions, and proposals chosen over the whole batch, not per image.
Different from both: random images, boxes and masks of COCO's sizes and numbers, and random weights, which
need the scaling described in `build`. Random proposals seldom fit, so the mask head sees about one or two
regions per instance, where a trained network fills most of the 128 that it may see per image: its share of
the step is smaller here.

torchvision's own inference has shapes that depend on what it finds, and `torch.export` stops at the first of
them (in the suppression of proposals). `Detector` runs the same modules with fixed shapes: proposals and
detections are padded to their number, every region is pooled from each level of the pyramid and one result
kept, and suppression is by `unsuppressed`. It answers the same boxes, labels, scores and masks, as long as no
more than `candidates` pairs of region and class matter; the masks stay in their 28x28 pixels, because pasting
them into the image is the evaluation's work. Images of a batch are of one size there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.mask_rcnn import MaskRCNN, MaskRCNNHeads
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import roi_align
from torchvision.ops.misc import FrozenBatchNorm2d

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.ssd import Selection, detections, unsuppressed

Batch = tuple[list[Tensor], list[dict[str, Tensor]]]

#: COCO's images after scaling, as (long over short side, how common), from its most frequent sizes:
#: 640x480, 640x427, 640x640 and 640x360. About a quarter of the photographs are upright.
ASPECTS = ((4 / 3, 0.55), (3 / 2, 0.36), (1.0, 0.04), (16 / 9, 0.05))
UPRIGHT = 0.25


@dataclass(frozen=True, kw_only=True)
class MaskRCNNConfig(Config):
    """The body's blocks and inner channels, the channels of pyramid and heads, and what sets the work.

    `anchors` are their sides in pixels, one per level of the pyramid.
    `proposals` is how many regions leave the proposal network per training image at most (and how many of
    each pyramid level enter its selection), half as many in inference; `sampled_regions` is how many of them
    the box head trains on. `candidates` is how many pairs of region and class suppression looks at in
    inference, and `detections` how many objects an image may have.
    """

    classes: int
    layers: tuple[int, int, int, int]
    width: int
    channels: int
    short_side: int
    long_side: int
    anchors: tuple[int, int, int, int, int]
    proposals: int
    sampled_regions: int
    candidates: int
    detections: int
    learning_rate: float


class Detector(nn.Module):
    """Images of one size to boxes (corners, pixels), labels, scores and masks (28x28 in each box).

    `module` answers with thresholds and numbers of its own; what is fewer than its number of detections is
    filled with zeros.
    """

    def __init__(self, module: MaskRCNN, image_size: tuple[int, int], candidates: int) -> None:
        super().__init__()
        self.module = module
        self.image_size = image_size
        heads = module.roi_heads
        self.selection = Selection(
            least_score=heads.score_thresh,
            iou=heads.nms_thresh,
            candidates=candidates,
            detections=heads.detections_per_img,
        )
        height, width = (-(-side // 32) * 32 for side in image_size)
        self.padding = (0, width - image_size[1], 0, height - image_size[0])
        device = next(module.parameters()).device
        generator = module.rpn.anchor_generator
        generator.set_cell_anchors(torch.float32, device)
        # The last level takes every second cell of the one before, from the first on.
        maps = [(-(-height // 2**level), -(-width // 2**level)) for level in range(2, 7)]
        strides = [[torch.tensor(height // h), torch.tensor(width // w)] for h, w in maps]
        strides = [[stride.to(device) for stride in pair] for pair in strides]
        for i, anchors in enumerate(generator.grid_anchors([list(m) for m in maps], strides)):
            self.register_buffer(f"anchors{i}", anchors, persistent=False)
        self.eval()
        #: How many regions of each level are looked at.
        anchors_per_cell = generator.num_anchors_per_location()[0]
        most = module.rpn.pre_nms_top_n()
        self.proposals = [min(most, anchors_per_cell * h * w) for h, w in maps]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        transform = self.module.transform
        mean = images.new_tensor(transform.image_mean).view(3, 1, 1)
        deviation = images.new_tensor(transform.image_std).view(3, 1, 1)
        levels = list(self.module.backbone(F.pad((images - mean) / deviation, self.padding)).values())
        proposals, real = self.propose(levels)
        boxes, labels, scores = self.classify(levels, proposals, real)
        return boxes, labels, scores, self.masks(levels, boxes, labels, scores)

    def propose(self, levels: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Regions [batch, regions, 4] that may hold an object, and which of them are no filling."""
        rpn = self.module.rpn
        scores, offsets, anchors = [], [], []
        for i, (objectness, moves) in enumerate(zip(*rpn.head(levels), strict=True)):
            n, _, height, width = moves.shape
            best, place = objectness.float().permute(0, 2, 3, 1).flatten(1).topk(self.proposals[i])
            flat = moves.float().view(n, -1, 4, height, width).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)
            # Small levels have fewer; boxes without an area change nothing in the suppression.
            missing = max(self.proposals) - self.proposals[i]
            scores.append(F.pad(best.sigmoid(), (0, missing)))
            offsets.append(F.pad(flat.gather(1, place[..., None].expand(-1, -1, 4)), (0, 0, 0, missing)))
            anchors.append(F.pad(getattr(self, f"anchors{i}")[place], (0, 0, 0, missing)))
        score, move, anchor = torch.stack(scores, 1), torch.stack(offsets, 1), torch.stack(anchors, 1)
        decoded = rpn.box_coder.decode_single(move.view(-1, 4), anchor.view(-1, 4))
        region = self.clip(decoded.view(move.shape))
        # Regions suppress each other within their level: all levels of all images at once.
        kept = unsuppressed(region.flatten(0, 1), None, rpn.nms_thresh).view(score.shape) > 0
        score = torch.where(kept & wide_and_high(region, rpn.min_size), score, -1.0).flatten(1)
        best, place = score.topk(min(rpn.post_nms_top_n(), sum(self.proposals)))
        real = best >= 0
        region = region.flatten(1, 2).gather(1, place[..., None].expand(-1, -1, 4))
        return torch.where(real[..., None], region, 0.0), real

    def classify(
        self, levels: list[Tensor], proposals: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Detections: boxes, labels, scores."""
        heads = self.module.roi_heads
        n, regions = real.shape
        pooled = pool(levels, proposals, heads.box_roi_pool.output_size)
        logits, offsets = heads.box_predictor(heads.box_head(pooled))
        decoded = heads.box_coder.decode_single(offsets.float(), proposals.flatten(0, 1))
        # Every class but the background, by itself.
        boxes = self.clip(decoded.view(n, regions, -1, 4)[:, :, 1:].reshape(n, -1, 4))
        classes = logits.shape[-1] - 1
        scores = logits.float().softmax(-1).view(n, regions, -1)[:, :, 1:]
        scores = torch.where(real[..., None], scores, 0.0).reshape(n, -1)
        scores = torch.where(wide_and_high(boxes, 1e-2), scores, 0.0)
        best, place = scores.topk(min(self.selection.candidates, regions * classes))
        boxes = boxes.gather(1, place[..., None].expand(-1, -1, 4))
        return detections(boxes, place % classes + 1, best, self.selection)

    def masks(self, levels: list[Tensor], boxes: Tensor, labels: Tensor, scores: Tensor) -> Tensor:
        """How likely each pixel of each detection is the object's: [batch, detections, 28, 28]."""
        heads = self.module.roi_heads
        pooled = pool(levels, boxes, heads.mask_roi_pool.output_size)
        logits = heads.mask_predictor(heads.mask_head(pooled))
        side = logits.shape[-1]
        own = labels.flatten()[:, None, None, None].expand(-1, 1, side, side)
        masks = logits.gather(1, own).float().sigmoid().view(*labels.shape, side, side)
        return torch.where(scores[..., None, None] > 0, masks, 0.0)

    def clip(self, boxes: Tensor) -> Tensor:
        """Boxes cut to the image, without its padding."""
        height, width = self.image_size
        x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
        return torch.stack([x, y], -1).flatten(-2)


def wide_and_high(boxes: Tensor, least: float) -> Tensor:
    """Which boxes have both sides of `least` pixels."""
    return ((boxes[..., 2:] - boxes[..., :2]) >= least).all(-1)


def pool(levels: list[Tensor], boxes: Tensor, size: Sequence[int]) -> Tensor:
    """The pyramid's features in boxes [batch, boxes, 4], each from the level for its size.

    That is the level where a box of 224 pixels is 14 cells wide (Lin et al., 2016, arXiv:1612.03144). Sorting
    the boxes by level has no fixed shape, so all are taken from all four and the right ones kept.
    """
    n, regions, _ = boxes.shape
    image = torch.arange(n, device=boxes.device, dtype=boxes.dtype)[:, None, None].expand(-1, regions, 1)
    rois = torch.cat([image, boxes], -1).flatten(0, 1)
    side = ((rois[:, 3] - rois[:, 1]) * (rois[:, 4] - rois[:, 2])).sqrt()
    level = torch.floor(4 + torch.log2(side / 224) + 1e-6).clamp(2, 5)
    pooled = None
    for i, features in enumerate(levels[:4], 2):
        # In single precision: 8 or 11 bits cannot say where in a thousand pixels a box is.
        taken = roi_align(features.float(), rois, size, 2.0**-i, 2).to(features.dtype)
        mine = (level == i)[:, None, None, None]
        pooled = taken if pooled is None else torch.where(mine, taken, pooled)
    return pooled


@register
class MaskRCNNResNet50(Network):
    """Mask R-CNN, ResNet-50 and FPN, 800x1333 pixels at most."""

    name = "mask-rcnn-r50-fpn"
    title = "Mask R-CNN (ResNet-50, FPN)"
    domain = "vision"
    task = "instance segmentation"
    unit = "images"
    dataset = "COCO 2017"
    # The page gives the masks' average precision; MLPerf asks 0.377 of the boxes and 0.339 of the masks.
    quality = QualityTarget("AP Segm", 0.34)
    paper = "https://arxiv.org/abs/1703.06870"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Segmentation/MaskRCNN/pytorch"
    )
    sizes = {
        "full": MaskRCNNConfig(
            batch_size=1,
            parameters=44_401_393,
            classes=91,
            layers=(3, 4, 6, 3),
            width=64,
            channels=256,
            short_side=800,
            long_side=1333,
            anchors=(32, 64, 128, 256, 512),
            proposals=2000,
            sampled_regions=512,
            candidates=1000,
            detections=100,
            learning_rate=2e-3,
        ),
        "tiny": MaskRCNNConfig(
            batch_size=2,
            classes=5,
            layers=(1, 1, 1, 1),
            width=16,
            channels=32,
            short_side=128,
            long_side=213,
            anchors=(8, 16, 32, 64, 128),
            proposals=50,
            sampled_regions=16,
            candidates=100,
            detections=20,
            learning_rate=2e-2,
        ),
    }

    def build(self, config: MaskRCNNConfig) -> MaskRCNN:
        body = ResNet(
            Bottleneck, list(config.layers), width_per_group=config.width, norm_layer=FrozenBatchNorm2d
        )
        # Frozen normalisation does nothing until it holds a trained network's statistics, and without any
        # the residual sums of random weights double at every block. A constant scale on the branches, in
        # place of those statistics, keeps the activations' size; it costs what the true numbers cost.
        for module in body.modules():
            if isinstance(module, Bottleneck):
                nn.init.constant_(module.bn3.weight, 0.5)
        # Both recipes train from the second stage on.
        for frozen in (body.conv1, body.layer1):
            frozen.requires_grad_(False)

        stages = {f"layer{i + 1}": str(i) for i in range(4)}
        pyramid = BackboneWithFPN(body, stages, [256, 512, 1024, 2048], config.channels)
        return MaskRCNN(
            pyramid,
            num_classes=config.classes,
            min_size=config.short_side,
            max_size=config.long_side,
            rpn_anchor_generator=AnchorGenerator(
                tuple((side,) for side in config.anchors), ((0.5, 1.0, 2.0),) * len(config.anchors)
            ),
            rpn_pre_nms_top_n_train=config.proposals,
            rpn_post_nms_top_n_train=config.proposals,
            rpn_pre_nms_top_n_test=config.proposals // 2,
            rpn_post_nms_top_n_test=config.proposals // 2,
            box_batch_size_per_image=config.sampled_regions,
            box_detections_per_img=config.detections,
            # The last layer's width is fixed by torchvision's mask predictor.
            mask_head=MaskRCNNHeads(config.channels, (*(config.channels,) * 3, 256), 1),
            # The images come in the size that the network wants, as from the recipes' data loaders.
            _skip_resize=True,
        )

    def batch(self, config: MaskRCNNConfig, batch_size: int, generator: torch.Generator) -> Batch:
        # Both recipes group images by orientation, so that little of a batch is padding.
        upright = bool(torch.rand((), generator=generator) < UPRIGHT)
        images, targets = [], []
        for _ in range(batch_size):
            height, width = self.image_size(config, upright, generator)
            images.append(torch.rand(3, height, width, generator=generator))
            boxes = coco_like_boxes(height, width, generator)
            labels = torch.randint(1, config.classes, (len(boxes),), generator=generator)
            targets.append({"boxes": boxes, "labels": labels, "masks": ellipses(boxes, height, width)})
        return images, targets

    def image_size(
        self, config: MaskRCNNConfig, upright: bool, generator: torch.Generator
    ) -> tuple[int, int]:
        """Height and width after scaling to `short_side`, or to `long_side` where that is reached first."""
        weights = torch.tensor([weight for _, weight in ASPECTS])
        ratio = ASPECTS[int(torch.multinomial(weights, 1, generator=generator))][0]
        short = min(config.short_side, int(config.long_side / ratio))
        long = min(config.long_side, round(short * ratio))
        return (long, short) if upright else (short, long)

    def units(self, batch: Batch) -> int:
        return len(batch[0])

    def loss(self, module: nn.Module, batch: Batch, state: None) -> tuple[Tensor, None]:
        images, targets = batch
        losses = module(images, targets)
        return torch.stack([loss.float() for loss in losses.values()]).sum(), None

    def optimizer(self, module: nn.Module, config: MaskRCNNConfig) -> torch.optim.Optimizer:
        trained = [p for p in module.parameters() if p.requires_grad]
        # Published: 0.02 for 16 images, after a warm-up from pretrained weights. Random ones without a
        # warm-up need less; speed does not depend on it.
        return torch.optim.SGD(trained, lr=config.learning_rate, momentum=0.9, weight_decay=1e-4, fused=True)

    def inference_inputs(
        self, config: MaskRCNNConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (torch.rand(batch_size, 3, *self.inference_size(config), generator=generator),)

    def inference_size(self, config: MaskRCNNConfig) -> tuple[int, int]:
        """Height and width of the most common photograph, lying and 4:3."""
        return config.short_side, min(config.long_side, round(config.short_side * ASPECTS[0][0]))

    def inference(self, module: nn.Module, config: MaskRCNNConfig) -> Detector:
        return Detector(cast("MaskRCNN", module), self.inference_size(config), config.candidates)


def coco_like_boxes(height: int, width: int, generator: torch.Generator) -> Tensor:
    """Boxes of one image (corners, pixels) with COCO's numbers and sizes.

    COCO has 7.3 instances per image, with a long tail. By its own count 41 % of them are small (area below
    32x32), 34 % medium and 24 % large (above 96x96); a log-normal side, relative to a 640x480 photograph,
    with median 0.076 and deviation 1.17 has the same shares.
    """
    count = min(int(torch.empty(()).geometric_(1 / 7.3, generator=generator)), 60)
    side = torch.randn(count, generator=generator).mul(1.17).sub(2.58).exp() * (height * width) ** 0.5
    stretch = torch.randn(count, generator=generator).mul(0.25).exp()
    size = torch.tensor([width, height])
    wh = torch.stack([side * stretch, side / stretch], 1).clamp(min=4.0).minimum(0.98 * size)
    xy = torch.rand(count, 2, generator=generator) * (size - wh)
    return torch.cat([xy, xy + wh], 1)


def ellipses(boxes: Tensor, height: int, width: int) -> Tensor:
    """One mask per box, 1 inside the ellipse that fills the box: [boxes, height, width], 8 bits."""
    x0, y0, x1, y1 = boxes[:, :, None].unbind(1)
    x = (2 * (torch.arange(width) + 0.5) - x0 - x1) / (x1 - x0)
    y = (2 * (torch.arange(height) + 0.5) - y0 - y1) / (y1 - y0)
    return (y.square()[:, :, None] + x.square()[:, None, :] < 1).to(torch.uint8)
