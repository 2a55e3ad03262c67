"""SSD320: RetinaNet-like SSD, a ResNet-50 with a feature pyramid and shared heads, at 320x320.

The network of NVIDIA's SSD for TensorFlow (SSD320 v1.2), which configures TensorFlow's object detection API:
SSD (Liu et al., 2015, arXiv:1512.02325) with the pyramid and the focal loss of RetinaNet (Lin et al., 2017,
arXiv:1708.02002), five levels of 40 to 3 cells a side, six boxes per cell (12804 in all) and 91 class scores
(COCO's category numbers, which have gaps, and a background that is never trained: the focal loss needs none).
The count built here is 32,840,570: by hand 23,508,032 for ResNet-50 without its classifier, 3,279,616 for the
pyramid and 6,052,922 for the heads. Convolutions and their weights are shared by the levels, normalisation is
not. Open Model Zoo publishes 56.9326 million and 178.6807 GFLOP for this network at 640x640
(`ssd_resnet50_v1_fpn_coco`), counting the shared weights at each of the five levels and normalisation folded
into biases. Counted so, the parameters here are the same; the convolutions alone have 178.3 GFLOP.

What is TensorFlow's and not RetinaNet's, and therefore here: the body is ResNet v1 whose stages run at one
resolution and are subsampled between, with ReLU6 inside the blocks; the pyramid's coarsest level from the
body is not smoothed, and the two coarser ones come from it; padding is at the end where it is odd; the boxes
of the coarsest level start at the image's corner, because 320 is no multiple of its 128 pixels; every box has
its best anchor, the earlier box where two want the same.

As in the recipe: focal loss with 0.25 and 2 and smooth L1, summed and divided by the batch's positives (and
by four coordinates); weight decay on convolutions' weights only; SGD with momentum. The recipe asks for
frozen batch normalisation, but in its version of the API the layers' own setting overrides that one, so it
trains here. In inference decoding, sigmoid and suppression at IoU 0.6 (see `Selection` in `ssd.py` for its
fixed shapes). Different: random images with boxes of COCO's sizes and random weights; anchors are matched
when the batch is made, where TensorFlow does it in the step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import sigmoid_focal_loss

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.ssd import Selection, best_per_class, coco_like_boxes, decode, encode, match

#: Level n has a cell for 2**n by 2**n pixels; the body computes three of them.
FIRST_LEVEL, LAST_LEVEL = 3, 7
#: An anchor's side in cells of its level, in two steps per doubling; width over height.
ANCHOR_SIDES = (4.0, 4.0 * 2**0.5)
ANCHOR_RATIOS = (1.0, 2.0, 0.5)
ANCHORS_PER_CELL = len(ANCHOR_SIDES) * len(ANCHOR_RATIOS)
EXPANSION = 4


@dataclass(frozen=True, kw_only=True)
class SSD320Config(Config):
    """Blocks and inner channels of the body, channels of pyramid and heads, layers before the answers.

    `classes` counts the background.
    """

    classes: int
    image_size: int
    layers: tuple[int, int, int, int]
    width: int
    channels: int
    head_layers: int
    learning_rate: float
    selection: Selection

    def maps(self) -> list[int]:
        """The sides of the pyramid's levels."""
        return [-(-self.image_size // 2**level) for level in range(FIRST_LEVEL, LAST_LEVEL + 1)]


@functools.cache
def anchors(config: SSD320Config) -> Tensor:
    """All anchors as (centre x, centre y, width, height) in shares of the image.

    In the order of the heads' outputs: level, row, column, shape.
    """
    with torch.device("cpu"):
        shapes = torch.tensor([(s * r**0.5, s / r**0.5) for r in ANCHOR_RATIOS for s in ANCHOR_SIDES])
        levels = []
        for level, side in enumerate(config.maps(), FIRST_LEVEL):
            step = 2**level
            # In the middle of the cells if these fit into the image, else at their corners.
            first = 0.5 if config.image_size % step == 0 else 0.0
            centres = (torch.arange(side) + first) * step
            y, x = torch.meshgrid(centres, centres, indexing="ij")
            xy = torch.stack([x, y], -1).view(-1, 1, 2).expand(-1, len(shapes), -1)
            levels.append(torch.cat([xy, (shapes * step).expand_as(xy)], -1).flatten(0, 1))
        return torch.cat(levels) / config.image_size


def normalisation(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation with the recipe's numbers: its decay of 0.997 is torch's momentum of 0.003."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.003)


class Convolution(nn.Sequential):
    """A convolution padded as TensorFlow's SAME, normalised, and ReLU6 unless it is `linear`."""

    def __init__(
        self,
        channels: int,
        out: int,
        kernel: int,
        stride: int = 1,
        padding: int | None = None,
        linear: bool = False,
    ) -> None:
        padding = kernel // 2 if padding is None else padding
        layers = [nn.Conv2d(channels, out, kernel, stride, padding, bias=False), normalisation(out)]
        super().__init__(*layers, *([] if linear else [nn.ReLU6(inplace=True)]))


class Block(nn.Module):
    """A residual block of ResNet v1, all of it at one resolution."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        out = width * EXPANSION
        self.shortcut = nn.Identity() if channels == out else Convolution(channels, out, 1, linear=True)
        self.branch = nn.Sequential(
            Convolution(channels, width, 1),
            Convolution(width, width, 3),
            Convolution(width, out, 1, linear=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.branch(x))


class Body(nn.Module):
    """ResNet v1 to the outputs of its last three stages."""

    def __init__(self, config: SSD320Config) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            Convolution(3, config.width, 7, stride=2),
            # An even map's 3x3 windows at stride 2 lack a row and a column at the end, not at both ends.
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        channels, stages = config.width, []
        for i, blocks in enumerate(config.layers):
            width = config.width * 2**i
            stages.append(nn.Sequential(Block(channels, width)))
            channels = width * EXPANSION
            stages[-1].extend(Block(channels, width) for _ in range(blocks - 1))
        self.stages = nn.ModuleList(stages)

    def forward(self, images: Tensor) -> list[Tensor]:
        x = self.stages[0](self.stem(images))
        maps = []
        for stage in self.stages[1:]:
            x = stage(x[:, :, ::2, ::2])
            maps.append(x)
        return maps


class Pyramid(nn.Module):
    """Three maps of the body to five levels of equally many channels."""

    def __init__(self, config: SSD320Config) -> None:
        super().__init__()
        out = config.channels
        inputs = [config.width * 2**i * EXPANSION for i in (1, 2, 3)]
        self.projections = nn.ModuleList(nn.Conv2d(channels, out, 1) for channels in inputs)
        self.smoothings = nn.ModuleList(Convolution(out, out, 3) for _ in inputs[:-1])
        self.coarser = nn.ModuleList(Convolution(out, out, 3, stride=2, padding=0) for _ in range(2))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        down = self.projections[-1](maps[-1])
        levels = [down]
        for projection, smoothing, x in zip(
            self.projections[1::-1], self.smoothings[::-1], maps[1::-1], strict=True
        ):
            down = F.interpolate(down, scale_factor=2.0, mode="nearest") + projection(x)
            levels.insert(0, smoothing(down))
        x = levels[-1]
        for convolution in self.coarser:
            # Stride 2 over an odd side wants a row before and one after, over an even side only one after.
            before = x.shape[-1] % 2
            x = convolution(F.pad(x, (before, 1, before, 1)))
            levels.append(x)
        return levels


class Head(nn.Module):
    """One tower of convolutions for all levels, and the convolution that answers for each anchor."""

    def __init__(self, config: SSD320Config, answers: int) -> None:
        super().__init__()
        self.answers = answers
        c = config.channels
        levels = LAST_LEVEL - FIRST_LEVEL + 1
        self.convolutions = nn.ModuleList(
            nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(config.head_layers)
        )
        self.normalisations = nn.ModuleList(
            nn.ModuleList(normalisation(c) for _ in range(config.head_layers)) for _ in range(levels)
        )
        self.answer = nn.Conv2d(c, answers * ANCHORS_PER_CELL, 3, padding=1)

    def forward(self, levels: list[Tensor]) -> Tensor:
        outputs = []
        for level, normalisations in zip(levels, self.normalisations, strict=True):
            x = level
            for convolution, normalise in zip(self.convolutions, normalisations, strict=True):
                x = F.relu6(normalise(convolution(x)))
            outputs.append(self.answer(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.answers))
        return torch.cat(outputs, 1)


class SSD320(nn.Module):
    """Images to (box offsets [batch, anchors, 4], class scores [batch, anchors, classes])."""

    def __init__(self, config: SSD320Config) -> None:
        super().__init__()
        self.body = Body(config)
        self.pyramid = Pyramid(config)
        self.box = Head(config, 4)
        self.label = Head(config, config.classes)
        for name, module in self.named_modules():
            if not isinstance(module, nn.Conv2d):
                continue
            if name.startswith("body"):  # where the recipe loads trained weights
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif name.startswith("pyramid"):
                nn.init.trunc_normal_(module.weight, std=0.03, a=-0.06, b=0.06)
            else:
                nn.init.normal_(module.weight, std=0.01)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        # A score of a hundredth: else the first steps would learn nothing but the background.
        nn.init.constant_(self.label.answer.bias, -4.6)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        levels = self.pyramid(self.body(images))
        return self.box(levels), self.label(levels)


def retina_loss(offsets: Tensor, logits: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    """Focal loss of all anchors and smooth L1 of the positive ones, per positive anchor of the batch.

    `offsets` and `target` are [batch, anchors, 4], `logits` [batch, anchors, classes], `labels` [batch,
    anchors].
    """
    positive = labels > 0
    positives = positive.sum().clamp(min=1)
    # Without an object no class is right, the background included.
    classes = torch.arange(logits.shape[-1], device=logits.device)
    right = ((labels[..., None] == classes) & positive[..., None]).to(logits.dtype)
    class_loss = sigmoid_focal_loss(logits, right, alpha=0.25, gamma=2.0, reduction="sum")
    box_loss = (F.smooth_l1_loss(offsets, target, reduction="none") * positive[..., None]).sum()
    return (class_loss + box_loss / 4) / positives


class Detector(nn.Module):
    """Images to detections: boxes (corners in shares of the image), labels and scores."""

    def __init__(self, module: nn.Module, config: SSD320Config) -> None:
        super().__init__()
        self.module = module
        self.selection = config.selection
        device = next(module.parameters()).device
        self.register_buffer("anchors", anchors(config).to(device), persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        offsets, logits = self.module(images)
        boxes = decode(offsets.float(), self.anchors)
        scores = logits.float().sigmoid()[..., 1:].transpose(1, 2)
        boxes, labels, scores = best_per_class(boxes, scores, self.selection)
        return boxes.clamp(0, 1), labels, scores


@register
class SSD320ResNet50FPN(Network):
    """SSD320 v1.2 on COCO-like boxes."""

    name = "ssd320-resnet50-fpn"
    title = "SSD320 v1.2 (ResNet-50, FPN)"
    domain = "vision"
    task = "object detection"
    unit = "images"
    dataset = "COCO 2017"
    quality = QualityTarget("mAP", 0.28)
    paper = "https://arxiv.org/abs/1708.02002"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow/Detection/SSD"
    sizes = {
        "full": SSD320Config(
            batch_size=32,
            classes=91,
            image_size=320,
            layers=(3, 4, 6, 3),
            width=64,
            channels=256,
            head_layers=4,
            learning_rate=2e-2,
            selection=Selection(least_score=1e-8, iou=0.6, candidates=1000, detections=100),
        ),
        "tiny": SSD320Config(
            batch_size=4,
            classes=11,
            image_size=96,
            layers=(1, 1, 1, 1),
            width=16,
            channels=32,
            head_layers=2,
            learning_rate=2e-2,
            selection=Selection(least_score=1e-8, iou=0.6, candidates=100, detections=20),
        ),
    }
    channels_last = True

    def build(self, config: SSD320Config) -> SSD320:
        return SSD320(config)

    def batch(
        self, config: SSD320Config, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        defaults = anchors(config)
        images = torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator)
        targets, labels = [], []
        for _ in range(batch_size):
            boxes = coco_like_boxes(generator)
            names = torch.randint(1, config.classes, (len(boxes),), generator=generator)
            # If two boxes want the same anchor, `match` gives it to the later and TensorFlow to the earlier.
            matched, matched_labels = match(boxes.flip(0), names.flip(0), defaults)
            targets.append(encode(matched, defaults))
            labels.append(matched_labels)
        return images, torch.stack(targets), torch.stack(labels)

    def units(self, batch: tuple[Tensor, Tensor, Tensor]) -> int:
        return batch[0].shape[0]

    def loss(
        self, module: nn.Module, batch: tuple[Tensor, Tensor, Tensor], state: None
    ) -> tuple[Tensor, None]:
        images, target, labels = batch
        offsets, logits = module(images)
        # In single precision whatever the network ran in: a sum over a million scores per image.
        return retina_loss(offsets.float(), logits.float(), target, labels), None

    def optimizer(self, module: nn.Module, config: SSD320Config) -> torch.optim.Optimizer:
        decayed = [p for p in module.parameters() if p.ndim > 1]
        vectors = [p for p in module.parameters() if p.ndim <= 1]
        groups = [{"params": decayed}, {"params": vectors, "weight_decay": 0.0}]
        # Published for one accelerator and its 32 images: 0.02, after a warm-up.
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=0.9, weight_decay=4e-4, fused=True)

    def inference_inputs(
        self, config: SSD320Config, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator),)

    def inference(self, module: nn.Module, config: SSD320Config) -> Detector:
        return Detector(module, config)
