"""SSD300 v1.1: Single Shot MultiBox Detector (Liu et al., 2015, arXiv:1512.02325) on a ResNet-50 body.

The network of NVIDIA's SSD v1.1 for PyTorch: ResNet-50 v1.5 cut after its third stage (conv4), that stage
at stride 1, five further blocks, and on each of the six maps one convolution for boxes and one for classes:
8732 default boxes, 81 classes (COCO's 80 and the background).

As in the reference: default boxes and their order, matching at IoU 0.5 in the data pipeline (here when the
batch is made), variances 0.1 and 0.2, smooth L1, three hard negatives per positive, no weight decay on
vectors. Different: random images with boxes of COCO's sizes instead of decoded and augmented photographs;
the body starts from random weights; the matched boxes are turned into offsets in the pipeline too, where the
reference does that small elementwise work in the step; hardest negatives are found with one sort, not two.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import box_convert, box_iou

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

#: Offsets are divided by these (the paper's code calls them variances), so that all four targets are of the
#: size of one: centres move by a tenth of a box, sides by a fifth of their logarithm.
CENTRE_SCALE, SIDE_SCALE = 0.1, 0.2
IOU_THRESHOLD = 0.5
NEGATIVES_PER_POSITIVE = 3


@dataclass(frozen=True, kw_only=True)
class SSDConfig(Config):
    """The body, the maps and the default boxes that sit on each map.

    `extra` is one block after another: channels inside, channels out, stride (at stride 1 the block's 3x3
    convolution has no padding, so the map loses two rows and columns). `scales` are box sides in pixels of
    the image, one per map and one more; `ratios` are the aspect ratios beside 1:1, each also turned.
    """

    classes: int
    image_size: int
    layers: tuple[int, int, int]
    extra: tuple[tuple[int, int, int], ...]
    maps: tuple[int, ...]
    steps: tuple[int, ...]
    scales: tuple[int, ...]
    ratios: tuple[tuple[int, ...], ...]
    learning_rate: float

    def boxes_per_cell(self) -> list[int]:
        """Default boxes at one cell of each map: two squares, and every ratio both ways."""
        return [2 + 2 * len(ratios) for ratios in self.ratios]


FULL = SSDConfig(
    batch_size=8,
    classes=81,
    image_size=300,
    layers=(3, 4, 6),
    extra=((256, 512, 2), (256, 512, 2), (128, 256, 2), (128, 256, 1), (128, 256, 1)),
    maps=(38, 19, 10, 5, 3, 1),
    steps=(8, 16, 32, 64, 100, 300),
    scales=(21, 45, 99, 153, 207, 261, 315),
    ratios=((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    learning_rate=2.6e-4,
)
TINY = SSDConfig(
    batch_size=4,
    classes=11,
    image_size=64,
    layers=(1, 1, 1),
    extra=((32, 64, 2), (32, 64, 2)),
    maps=(8, 4, 2),
    steps=(8, 16, 32),
    scales=(8, 20, 36, 52),
    ratios=((2,), (2, 3), (2,)),
    learning_rate=2.6e-3,
)


@functools.cache
def default_boxes(config: SSDConfig) -> Tensor:
    """All default boxes as (centre x, centre y, width, height) in shares of the image.

    In the order in which the heads' outputs are flattened: map by map, in a map shape by shape, in a shape
    row by row.
    """

    def on_each_map() -> Iterator[Tensor]:
        for i, side in enumerate(config.maps):
            small, next_small = config.scales[i] / config.image_size, config.scales[i + 1] / config.image_size
            between = math.sqrt(small * next_small)
            shapes = [(small, small), (between, between)]
            for ratio in config.ratios[i]:
                wide, high = small * math.sqrt(ratio), small / math.sqrt(ratio)
                shapes += [(wide, high), (high, wide)]
            centres = (torch.arange(side) + 0.5) * config.steps[i] / config.image_size
            y, x = torch.meshgrid(centres, centres, indexing="ij")
            xy = torch.stack([x, y], -1).view(1, side * side, 2).expand(len(shapes), -1, -1)
            wh = torch.tensor(shapes).view(len(shapes), 1, 2).expand_as(xy)
            yield torch.cat([xy, wh], -1).flatten(0, 1)

    return torch.cat(list(on_each_map())).clamp(0, 1)


def match(boxes: Tensor, labels: Tensor, defaults: Tensor) -> tuple[Tensor, Tensor]:
    """For each default box the box (corners) that it answers for, and that box's label.

    A default box takes the box that it overlaps most, if by more than `IOU_THRESHOLD`, else itself and the
    label 0. Every box gets the default box that overlaps it most, however little that is; if two want the
    same one, the later has it.
    """
    corners = box_convert(defaults, "cxcywh", "xyxy")
    iou = box_iou(boxes, corners)
    overlap, chosen = iou.max(dim=0)
    best = iou.argmax(dim=1)
    # One by one, because an indexed assignment with repeated indices does not say which value wins.
    for i, default in enumerate(best.tolist()):
        chosen[default] = i
    overlap[best] = 2.0
    matched = overlap > IOU_THRESHOLD
    return torch.where(matched[:, None], boxes[chosen], corners), torch.where(matched, labels[chosen], 0)


def encode(boxes: Tensor, defaults: Tensor) -> Tensor:
    """Boxes (corners) as scaled offsets from their default boxes: what the network learns."""
    wanted = box_convert(boxes, "xyxy", "cxcywh")
    centre = (wanted[..., :2] - defaults[..., :2]) / defaults[..., 2:] / CENTRE_SCALE
    return torch.cat([centre, (wanted[..., 2:] / defaults[..., 2:]).log() / SIDE_SCALE], -1)


def decode(offsets: Tensor, defaults: Tensor) -> Tensor:
    """Scaled offsets as boxes (corners): the inverse of `encode`."""
    centre = offsets[..., :2] * CENTRE_SCALE * defaults[..., 2:] + defaults[..., :2]
    sides = (offsets[..., 2:] * SIDE_SCALE).exp() * defaults[..., 2:]
    return box_convert(torch.cat([centre, sides], -1), "cxcywh", "xyxy")


def multibox_loss(offsets: Tensor, logits: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    """Smooth L1 on positives, cross entropy on positives and the hardest negatives, per positive.

    `offsets` and `target` are [batch, 4, boxes], `logits` [batch, classes, boxes], `labels` [batch, boxes].
    """
    positive = labels > 0
    positives = positive.sum(1)
    box_loss = F.smooth_l1_loss(offsets, target, reduction="none").sum(1)

    cross_entropy = F.cross_entropy(logits, labels, reduction="none")
    # With positives at 0 they sort behind all negatives, and a sum over the first few is the hardest's sum.
    negative = cross_entropy.masked_fill(positive, 0.0).sort(dim=1, descending=True).values
    rank = torch.arange(negative.shape[1], device=negative.device)
    hardest = rank < NEGATIVES_PER_POSITIVE * positives[:, None]

    total = ((box_loss + cross_entropy) * positive).sum(1) + (negative * hardest).sum(1)
    # An image without a box has no positives and then no negatives either: it adds nothing.
    return (total / positives.clamp(min=1)).mean()


class SSD300(nn.Module):
    """Images to (box offsets [batch, 4, boxes], class scores [batch, classes, boxes])."""

    def __init__(self, config: SSDConfig) -> None:
        super().__init__()
        self.classes = config.classes
        resnet = ResNet(Bottleneck, [*config.layers, 1])
        first = resnet.layer3[0]
        # The third stage keeps the resolution of the second: 38x38 for the first map.
        first.conv2.stride = (1, 1)
        first.downsample[0].stride = (1, 1)
        self.body = nn.Sequential(
            resnet.conv1,
            resnet.bn1,
            resnet.relu,
            resnet.maxpool,
            resnet.layer1,
            resnet.layer2,
            resnet.layer3,
        )

        channels = [256 * Bottleneck.expansion]
        self.extra = nn.ModuleList()
        for inside, out, stride in config.extra:
            self.extra.append(
                nn.Sequential(
                    nn.Conv2d(channels[-1], inside, 1, bias=False),
                    nn.BatchNorm2d(inside),
                    nn.ReLU(inplace=True),
                    nn.Conv2d(inside, out, 3, stride=stride, padding=stride - 1, bias=False),
                    nn.BatchNorm2d(out),
                    nn.ReLU(inplace=True),
                )
            )
            channels.append(out)

        per_cell = config.boxes_per_cell()
        self.box = nn.ModuleList(
            nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in zip(channels, per_cell, strict=True)
        )
        self.label = nn.ModuleList(
            nn.Conv2d(c, self.classes * n, 3, padding=1) for c, n in zip(channels, per_cell, strict=True)
        )
        for parameter in [*self.extra.parameters(), *self.box.parameters(), *self.label.parameters()]:
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(images)
        maps = [x]
        for block in self.extra:
            x = block(x)
            maps.append(x)
        # A head's channels are (coordinate, shape), so a plain reshape leaves the shapes' maps one after
        # another: the order of `default_boxes`.
        n = len(images)
        offsets = [head(x).reshape(n, 4, -1) for head, x in zip(self.box, maps, strict=True)]
        logits = [head(x).reshape(n, self.classes, -1) for head, x in zip(self.label, maps, strict=True)]
        return torch.cat(offsets, 2), torch.cat(logits, 2)


def coco_like_boxes(generator: torch.Generator) -> Tensor:
    """Boxes of one image (corners in shares of the image) with COCO's numbers and sizes.

    COCO has 7.3 instances per image, with a long tail. By its own count 41 % of them are small (area below
    32x32), 34 % medium and 24 % large (above 96x96); a log-normal side, relative to a 640x480 photograph,
    with median 0.076 and deviation 1.17 has the same shares.
    """
    count = min(int(torch.empty(()).geometric_(1 / 7.3, generator=generator)), 60)
    side = torch.randn(count, generator=generator).mul(1.17).sub(2.58).exp()
    stretch = torch.randn(count, generator=generator).mul(0.25).exp()
    wh = torch.stack([side * stretch, side / stretch], 1).clamp(0.01, 0.98)
    xy = torch.rand(count, 2, generator=generator) * (1 - wh)
    return torch.cat([xy, xy + wh], 1)


@register
class SSD300ResNet50(Network):
    """SSD v1.1 at 300x300 on COCO-like boxes."""

    name = "ssd300-resnet50"
    title = "SSD300 v1.1 (ResNet-50)"
    domain = "vision"
    task = "object detection"
    unit = "images"
    dataset = "COCO 2017"
    quality = QualityTarget("mAP", 0.25)
    paper = "https://arxiv.org/abs/1512.02325"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Detection/SSD"
    sizes = {"full": FULL, "tiny": TINY}
    channels_last = True
    least_batch_size = 2  # the last feature map is one value per channel

    def build(self, config: SSDConfig) -> SSD300:
        return SSD300(config)

    def batch(
        self, config: SSDConfig, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        defaults = default_boxes(config)
        images = torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator)
        targets, labels = [], []
        for _ in range(batch_size):
            boxes = coco_like_boxes(generator)
            names = torch.randint(1, config.classes, (len(boxes),), generator=generator)
            matched, matched_labels = match(boxes, names, defaults)
            targets.append(encode(matched, defaults).T)
            labels.append(matched_labels)
        return images, torch.stack(targets), torch.stack(labels)

    def units(self, batch: tuple[Tensor, Tensor, Tensor]) -> int:
        return batch[0].shape[0]

    def loss(
        self, module: nn.Module, batch: tuple[Tensor, Tensor, Tensor], state: None
    ) -> tuple[Tensor, None]:
        images, target, labels = batch
        offsets, logits = module(images)
        # In single precision whatever the network ran in, as in the reference: a sum over 8732 boxes.
        return multibox_loss(offsets.float(), logits.float(), target, labels), None

    def optimizer(self, module: nn.Module, config: SSDConfig) -> torch.optim.Optimizer:
        decayed = [p for p in module.parameters() if p.ndim > 1]
        vectors = [p for p in module.parameters() if p.ndim <= 1]
        groups = [{"params": decayed}, {"params": vectors, "weight_decay": 0.0}]
        # Published: 2.6e-3 for 32 images, after a warm-up over an epoch and from a pretrained body. Without
        # either, a tenth of it; speed does not depend on it.
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=0.9, weight_decay=5e-4)

    def inference_inputs(
        self, config: SSDConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator),)
