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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.mask_rcnn import MaskRCNN, MaskRCNNHeads
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops.misc import FrozenBatchNorm2d

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

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
    each pyramid level enter its selection); `sampled_regions` is how many of them the box head trains on.
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
    learning_rate: float


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
        return torch.optim.SGD(trained, lr=config.learning_rate, momentum=0.9, weight_decay=1e-4)

    def inference_inputs(
        self, config: MaskRCNNConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[list[Tensor]]:
        return (self.batch(config, batch_size, generator)[0],)


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
