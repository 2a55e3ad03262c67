"""What the SSD networks share (Liu et al., 2015, arXiv:1512.02325): boxes, matching, mining, decoding.

`SSD` is the family that NVIDIA's v1.1 and MLPerf's ResNet-34 networks belong to: a ResNet cut after its third
stage (conv4), that stage at stride 1, five further blocks, and on each of the six maps one convolution for
boxes and one for classes. `Detector` is such a network as it answers: scores, boxes in the image, and
non-maximum suppression, all with fixed shapes, so that it exports for any number of images.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import ResNet
from torchvision.ops import box_convert, box_iou

from accelmark.networks.base import Config, Network

#: Offsets are divided by these (the paper's code calls them variances), so that all four targets are of the
#: size of one: centres move by a tenth of a box, sides by a fifth of their logarithm.
CENTRE_SCALE, SIDE_SCALE = 0.1, 0.2
IOU_THRESHOLD = 0.5
NEGATIVES_PER_POSITIVE = 3


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which of all scored boxes become detections.

    The references look at every class by itself: scores above `least_score`, suppression at `iou`, at most so
    many per class and `detections` in all. Here the `candidates` best pairs of box and class of an image are
    taken first and suppressed class by class: the same answer wherever no more pairs than that are above
    `least_score` or enough of them are kept, and the shapes are fixed.
    """

    least_score: float
    iou: float
    candidates: int
    detections: int


@dataclass(frozen=True, kw_only=True)
class SSDConfig(Config):
    """The body, the maps and the default boxes that sit on each map.

    `extra` is one block after another: channels inside, channels out, stride and padding of the block's 3x3
    convolution. `maps` are the sides of the heads' outputs and `steps` how many pixels of the image lie
    between their cells. `scales` are box sides in pixels, one per map and one more; `ratios` are the aspect
    ratios beside 1:1, each also turned.
    """

    classes: int
    image_size: int
    layers: tuple[int, int, int]
    extra: tuple[tuple[int, int, int, int], ...]
    maps: tuple[int, ...]
    steps: tuple[float, ...]
    scales: tuple[int, ...]
    ratios: tuple[tuple[int, ...], ...]
    learning_rate: float
    # As in both references, which then keep 200 per class and 200 in all.
    selection: Selection = Selection(least_score=0.05, iou=0.5, candidates=1000, detections=200)

    def boxes_per_cell(self) -> list[int]:
        """Default boxes at one cell of each map: two squares, and every ratio both ways."""
        return [2 + 2 * len(ratios) for ratios in self.ratios]


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

    # The tensor is kept for later calls, so it is a real one even when this is first called on "meta".
    with torch.device("cpu"):
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


def unsuppressed(boxes: Tensor, labels: Tensor | None, iou: float) -> Tensor:
    """Which boxes greedy non-maximum suppression keeps: 1 or 0, [batch, boxes].

    `boxes` [batch, boxes, 4] are sorted by falling score; only boxes of one label suppress each other. Going
    through the boxes one after another is slow on an accelerator and has no fixed shape over a batch, so all
    are decided at once from who suppresses whom, again and again: each round settles at least the next box
    of every chain, so what no longer changes is the greedy answer. A few rounds do.
    """
    first, second = boxes[:, :, None], boxes[:, None]
    low, high = torch.maximum(first[..., :2], second[..., :2]), torch.minimum(first[..., 2:], second[..., 2:])
    # Products of two by hand: a general product is slower, and rounds elsewhere in other engines.
    overlap = (high - low).clamp(min=0)
    both = overlap[..., 0] * overlap[..., 1]
    side = boxes[..., 2:] - boxes[..., :2]
    area = side[..., 0] * side[..., 1]
    # Where nothing has an area, nothing is above it: no division, no NaN.
    suppresses = both > iou * (area[:, :, None] + area[:, None] - both)
    if labels is not None:
        suppresses = suppresses & (labels[:, :, None] == labels[:, None])
    better = suppresses.float().triu(1)

    def undecided(kept: Tensor, changed: Tensor) -> Tensor:
        return changed.clone()  # a graph's condition must not be its own input

    def decide(kept: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
        now = ((kept[:, None].to(better.dtype) @ better)[:, 0] == 0).to(kept.dtype)
        return now, (now != kept).any()

    kept = boxes.new_ones(boxes.shape[:2], dtype=torch.float32)
    changed = torch.ones((), dtype=torch.bool, device=boxes.device)
    if torch.compiler.is_compiling():
        kept, _ = torch._higher_order_ops.while_loop(undecided, decide, (kept, changed))
    else:  # the same; outside of a graph that operator would compile itself one
        while changed:
            kept, changed = decide(kept, changed)
    return kept


def detections(
    boxes: Tensor, labels: Tensor, scores: Tensor, selection: Selection
) -> tuple[Tensor, Tensor, Tensor]:
    """The detections among candidates sorted by falling score: boxes, labels and scores, best first.

    [batch, detections] of each; where an image has fewer, the rest is zeros.
    """
    kept = (unsuppressed(boxes, labels, selection.iou) > 0) & (scores > selection.least_score)
    scores, place = torch.where(kept, scores, 0.0).topk(selection.detections)
    found = scores > 0
    boxes = torch.where(found[..., None], boxes.gather(1, place[..., None].expand(-1, -1, 4)), 0.0)
    return boxes, torch.where(found, labels.gather(1, place), 0), scores


def best_per_class(boxes: Tensor, scores: Tensor, selection: Selection) -> tuple[Tensor, Tensor, Tensor]:
    """The detections among boxes [batch, boxes, 4] by their classes' scores [batch, classes, boxes].

    The first class has the label 1: the background is not among them.
    """
    number = boxes.shape[1]
    best, place = scores.flatten(1).topk(selection.candidates)
    of_best = boxes.gather(1, (place % number)[..., None].expand(-1, -1, 4))
    labels = torch.div(place, number, rounding_mode="floor") + 1
    return detections(of_best, labels, best, selection)


class Detector(nn.Module):
    """Images to detections: boxes (corners in shares of the image), labels and scores."""

    def __init__(self, module: nn.Module, config: SSDConfig) -> None:
        super().__init__()
        self.module = module
        self.selection = config.selection
        device = next(module.parameters()).device
        self.register_buffer("defaults", default_boxes(config).to(device), persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        offsets, logits = self.module(images)
        # Single precision whatever the network ran in: half of it cannot tell 8732 boxes' places apart.
        boxes = decode(offsets.float().transpose(1, 2), self.defaults)
        return best_per_class(boxes, logits.float().softmax(1)[:, 1:], self.selection)


class SSD(nn.Module):
    """Images to (box offsets [batch, 4, boxes], class scores [batch, classes, boxes]).

    `body` is cut after its third stage. The blocks behind it are `normalised`, or have biases instead;
    `head_stride` is that of the convolutions that answer.
    """

    def __init__(self, config: SSDConfig, body: ResNet, normalised: bool, head_stride: int = 1) -> None:
        super().__init__()
        self.classes = config.classes
        # The third stage keeps the resolution of the second: 38x38 for the first map of 300x300 images.
        first = body.layer3[0]
        strided = first.conv2 if hasattr(first, "conv3") else first.conv1
        strided.stride = first.downsample[0].stride = (1, 1)
        channels = [first.downsample[0].out_channels]
        self.body = nn.Sequential(
            body.conv1, body.bn1, body.relu, body.maxpool, body.layer1, body.layer2, body.layer3
        )

        self.extra = nn.ModuleList()
        for inside, out, stride, padding in config.extra:
            squeeze = nn.Conv2d(channels[-1], inside, 1, bias=not normalised)
            widen = nn.Conv2d(inside, out, 3, stride=stride, padding=padding, bias=not normalised)
            layers: list[nn.Module] = []
            for convolution in (squeeze, widen):
                layers.append(convolution)
                if normalised:
                    layers.append(nn.BatchNorm2d(convolution.out_channels))
                layers.append(nn.ReLU(inplace=True))
            self.extra.append(nn.Sequential(*layers))
            channels.append(out)

        heads = list(zip(channels, config.boxes_per_cell(), strict=True))
        self.box = nn.ModuleList(nn.Conv2d(c, 4 * n, 3, head_stride, padding=1) for c, n in heads)
        self.label = nn.ModuleList(
            nn.Conv2d(c, self.classes * n, 3, head_stride, padding=1) for c, n in heads
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
        n = images.shape[0]  # `len` would be a constant in an exported graph
        offsets = [head(x).reshape(n, 4, -1) for head, x in zip(self.box, maps, strict=True)]
        logits = [head(x).reshape(n, self.classes, -1) for head, x in zip(self.label, maps, strict=True)]
        return torch.cat(offsets, 2), torch.cat(logits, 2)


class SSDNetwork(Network):
    """What the networks of this family declare alike: COCO-like batches, loss, units, inference."""

    domain = "vision"
    task = "object detection"
    unit = "images"
    dataset = "COCO 2017"
    paper = "https://arxiv.org/abs/1512.02325"
    channels_last = True

    def batch(
        self, config: SSDConfig, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        defaults = default_boxes(config)
        # Normalised photographs have mean 0 and deviation 1 per channel, and so has this noise.
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

    def inference_inputs(
        self, config: SSDConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator),)

    def inference(self, module: nn.Module, config: SSDConfig) -> Detector:
        return Detector(module, config)
