"""3D U-Net of MLPerf inference v0.7 to v1.1: nnU-Net (Isensee et al., 2019, arXiv:1904.08128) on BraTS 2019.

nnU-Net's full-resolution network for four kinds of MRI and volumes of 224x224x160 voxels: six scales of two
3x3x3 convolutions, each with instance normalisation and a leaky ReLU; 32, 64, 128, 256, 320 and 320 filters;
strides of two on the way down, 2x2x2 transposed convolutions on the way up; four classes: background,
necrosis and non-enhancing tumour, oedema, enhancing tumour. A sample of the benchmark is a whole volume,
padded to that size.

31,197,696 parameters, counted layer by layer in the tests; no number of MLPerf's or nnU-Net's authors was
found. MLPerf's checkpoint names its plan "nnUNetPlansv2.mlperf", and 32 filters first, doubled up to 320, are
what nnU-Net's planner of that version takes; the plan itself was not looked into. The 19 million often quoted
for "3D U-Net" are those of another network, by Cicek et al., 2016, with four scales.

As in nnU-Net's trainer: deep supervision by a head at each of the four finest scales, each with half the
weight of the one before; cross-entropy minus the dice of the foreground's classes in each sample; SGD with
Nesterov's momentum 0.99, gradients clipped to 12; He's normal weights. The reference has a head at the fifth
scale too, whose loss has weight zero; its 1,280 parameters never learn and are left away. Different:
synthetic brains, and a constant learning rate in place of polynomial decay.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

Size = tuple[int, int, int]

#: Volumes [batch, kinds, *size] and, for each head, the class of each voxel, [batch, *size]: finest
#: first, the others from every second voxel of the one before. Classes have 8 bits, to move little.
Batch = tuple[Tensor, list[Tensor]]

#: Heads with a loss, at the finest scales.
HEADS = 4

#: A brain's extent relative to a volume of 224x224x160: 138x169x138 voxels, the median of BraTS's images once
#: cropped to the brain (nnU-Net's table of data sets). The ellipsoid in it is 21 % of the volume.
BRAIN = (138 / 224, 169 / 224, 138 / 160)
#: Share of necrosis and non-enhancing tumour, oedema, and enhancing tumour in all voxels of BraTS (Havaei et
#: al., 2015, arXiv:1505.03540: 0.18 % necrosis and 0.12 % non-enhancing, 1.1 %, 0.38 %).
SHARES = (0.0030, 0.0110, 0.0038)
#: How much brighter each class is than a healthy brain, in its deviations, by kind of image: T1, T1 with
#: contrast agent, T2, FLAIR. Oedema is bright in the last two, enhancing tumour in the second.
CONTRAST = ((0, 0, 0, 0), (-1, -1, 2, 1), (0, 0, 2, 3), (0, 3, 1, 1))


@dataclass(frozen=True, kw_only=True)
class UNet3DConfig(Config):
    """`filters` from the finest scale to the coarsest; `kinds` of images of each voxel."""

    filters: tuple[int, ...]
    output_size: Size
    learning_rate: float
    kinds: int = 4
    classes: int = 4


def convolution(channels: int, filters: int, stride: int = 1) -> nn.Sequential:
    """nnU-Net's building block."""
    return nn.Sequential(
        nn.Conv3d(channels, filters, 3, stride=stride, padding=1),
        nn.InstanceNorm3d(filters, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class UNet3D(nn.Module):
    """Volumes [batch, kinds, *size] to logits [batch, classes, *size].

    In training those of every head, the finest first; in evaluation those of the finest.
    """

    def __init__(self, config: UNet3DConfig) -> None:
        super().__init__()
        self.encoder = nn.ModuleList()
        channels = config.kinds
        for scale, filters in enumerate(config.filters):
            self.encoder.append(
                nn.Sequential(
                    convolution(channels, filters, stride=1 if scale == 0 else 2),
                    convolution(filters, filters),
                )
            )
            channels = filters
        self.doubling = nn.ModuleList()
        self.decoder = nn.ModuleList()
        self.heads = nn.ModuleList()
        for scale, filters in reversed(list(enumerate(config.filters[:-1]))):
            self.doubling.append(nn.ConvTranspose3d(channels, filters, 2, stride=2, bias=False))
            self.decoder.append(
                nn.Sequential(convolution(2 * filters, filters), convolution(filters, filters))
            )
            if scale < HEADS:
                self.heads.append(nn.Conv3d(filters, config.classes, 1, bias=False))
            channels = filters
        for module in self.modules():
            if isinstance(module, nn.Conv3d | nn.ConvTranspose3d):
                nn.init.kaiming_normal_(module.weight, a=0.01)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, volumes: Tensor) -> Tensor | list[Tensor]:
        x, skips = volumes, []
        for block in self.encoder:
            x = block(x)
            skips.append(x)
        skips.pop()
        maps = []
        for double, block in zip(self.doubling, self.decoder, strict=True):
            x = block(torch.cat([double(x), skips.pop()], 1))
            maps.append(x)
        if not self.training:
            return self.heads[-1](x)
        answers = [head(x) for head, x in zip(self.heads, maps[-len(self.heads) :], strict=True)]
        return answers[::-1]


def dice_and_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of all voxels, less the mean dice of the classes but the background in each sample."""
    logits, labels = logits.float(), labels.long()
    probabilities = logits.softmax(1)[:, 1:].flatten(2)
    truth = torch.stack([labels == k for k in range(1, logits.shape[1])], 1).flatten(2).to(probabilities)
    shared = (probabilities * truth).sum(2)
    both = probabilities.sum(2) + truth.sum(2)
    # A class that is neither there nor found counts as found.
    dice = (2 * shared + 1e-5) / (both + 1e-5)
    return F.cross_entropy(logits, labels) - dice.mean()


@register
class UNet3DNetwork(Network):
    """nnU-Net's 3D U-Net on whole BraTS volumes, as in MLPerf inference."""

    name = "unet-3d"
    title = "3D U-Net (BraTS 2019)"
    domain = "vision"
    task = "segmentation"
    unit = "samples"
    dataset = "BraTS 2019"
    quality = QualityTarget("DICE mean", 0.853)
    paper = "https://arxiv.org/abs/1904.08128"
    reference = "https://github.com/mlcommons/inference/tree/r1.0/vision/medical_imaging/3d-unet"
    clip_gradient_norm = 12.0
    sizes = {
        "full": UNet3DConfig(
            batch_size=2,  # nnU-Net's smallest
            filters=(32, 64, 128, 256, 320, 320),
            output_size=(224, 224, 160),
            learning_rate=1e-2,
        ),
        "tiny": UNet3DConfig(
            batch_size=2, filters=(4, 8, 8, 8, 8), output_size=(32, 32, 32), learning_rate=2e-2
        ),
    }

    def build(self, config: UNet3DConfig) -> UNet3D:
        return UNet3D(config)

    def batch(self, config: UNet3DConfig, batch_size: int, generator: torch.Generator) -> Batch:
        volumes, labels = zip(
            *(brain(config.output_size, config.kinds, generator) for _ in range(batch_size)), strict=True
        )
        finest = torch.stack(labels)
        scales = [finest[:, :: 2**i, :: 2**i, :: 2**i].contiguous() for i in range(HEADS)]
        return torch.stack(volumes), scales

    def units(self, batch: Batch) -> int:
        return len(batch[0])

    def loss(self, module: nn.Module, batch: Batch, state: None) -> tuple[Tensor, None]:
        volumes, scales = batch
        losses = [
            dice_and_entropy(logits, labels) / 2**i
            for i, (logits, labels) in enumerate(zip(module(volumes), scales, strict=True))
        ]
        return torch.stack(losses).sum() / sum(1 / 2**i for i in range(HEADS)), None

    def optimizer(self, module: nn.Module, config: UNet3DConfig) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            module.parameters(),
            lr=config.learning_rate,
            momentum=0.99,
            nesterov=True,
            weight_decay=3e-5,
            fused=True,
        )

    def inference_inputs(
        self, config: UNet3DConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (self.batch(config, batch_size, generator)[0],)


def brain(size: Size, kinds: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One volume [kinds, *size] and the class of each of its voxels [*size].

    An ellipsoid, of mean 0 and deviation 1 inside and 0 outside as after nnU-Net's normalisation and padding.
    In it is a tumour of three nested ones: necrosis, around it enhancing tumour, around that oedema. Its size
    is from a fifth to nine fifths of the mean, uniformly.
    """
    # Where each voxel is, in the brain's half axes from its middle.
    axes = [((torch.arange(n) + 0.5) / n * 2 - 1) / extent for n, extent in zip(size, BRAIN, strict=True)]
    inside = distance(axes, (0.0, 0.0, 0.0)) < 1

    volume = math.pi / 6 * math.prod(BRAIN)
    scale = 0.2 + 1.6 * float(torch.rand((), generator=generator))
    necrosis, oedema, enhancing = (share * scale / volume for share in SHARES)
    radii = [r ** (1 / 3) for r in (necrosis, necrosis + enhancing, necrosis + enhancing + oedema)]
    direction = torch.randn(3, generator=generator)
    reach = (1 - radii[-1]) * float(torch.rand((), generator=generator)) ** (1 / 3)
    tumour = distance(axes, (direction / direction.norm() * reach).tolist())
    labels = torch.zeros(size, dtype=torch.uint8)
    for radius, label in zip(reversed(radii), (2, 3, 1), strict=True):
        labels.masked_fill_(tumour < radius, label)

    volumes = torch.randn(kinds, *size, generator=generator)
    volumes += torch.tensor(CONTRAST, dtype=torch.float32).T[:kinds, labels.long()]
    for one in volumes:
        deviation, mean = torch.std_mean(one[inside])
        one.sub_(mean).div_(deviation).mul_(inside)
    return volumes, labels


def distance(axes: Sequence[Tensor], middle: Sequence[float]) -> Tensor:
    """How far each point of a grid is from `middle`."""
    d, h, w = ((axis - m).square() for axis, m in zip(axes, middle, strict=True))
    return (d[:, None, None] + h[:, None] + w).sqrt()


def sliding_window(
    network: Callable[[Tensor], Tensor], volumes: Tensor, size: Size, step: float = 0.5
) -> Tensor:
    """Probabilities [batch, classes, *] for volumes larger than the network takes, patch by patch.

    Patches of `size` lie evenly, at most `step` of their size apart, and each class's probability is their
    mean, weighted with a Gaussian around each patch's middle, whose deviation is an eighth of its size:
    nnU-Net's way, without its mirroring. MLPerf's volumes are one patch, so its benchmark never slides.
    """
    weight = gaussian(size).to(volumes.device)
    starts = [positions(have, want, step) for have, want in zip(volumes.shape[2:], size, strict=True)]
    norm = weight.new_zeros(volumes.shape[2:])
    total = weight.new_zeros(0)
    for corner in itertools.product(*starts):
        place = (..., *(slice(at, at + length) for at, length in zip(corner, size, strict=True)))
        answer = network(volumes[place]).float().softmax(1)
        if total.numel() == 0:  # only the answer tells how many classes there are
            total = answer.new_zeros(*answer.shape[:2], *volumes.shape[2:])
        total[place] += answer * weight
        norm[place] += weight
    return total / norm


def positions(length: int, patch: int, step: float) -> list[int]:
    """Where patches begin on an axis, the first at its beginning and the last at its end."""
    if length < patch:
        raise ValueError(f"an axis of {length} voxels has no room for a patch of {patch}: pad it first")
    gaps = math.ceil((length - patch) / (patch * step))
    return [round((length - patch) * i / gaps) for i in range(gaps)] + [length - patch]


def gaussian(size: Size) -> Tensor:
    """Weight of each voxel of a patch, 1 in its middle."""
    axes = [-0.5 * ((torch.arange(n) - n // 2) / (n / 8)).square() for n in size]
    return (axes[0][:, None, None] + axes[1][:, None] + axes[2]).exp()
