"""U-Net (Ronneberger et al., 2015, arXiv:1505.04597) as NVIDIA's TensorFlow recipes train it on EM images.

Five scales of two 3x3 convolutions without padding, 64 to 1024 filters: 572x572 grey pixels in, two classes
for the 388x388 in their middle out. The encoder's maps are cropped to the decoder's before they are joined.

34,512,258 parameters, counted layer by layer in the tests; the recipe does not print the number. Its
upsampling is a 3x3 transposed convolution with a ReLU, where the paper's is 2x2: with that it would be
31,030,658, the number often given for U-Net.

As in the recipe: cross-entropy plus a dice loss with squares in its denominator, dropout of one half before
the decoder, Glorot's uniform weights, Adam at 1e-4. Its TensorFlow 2 version, whose own figures are nearest
to the published rows, adds L2 of all parameters; the TensorFlow 1 version has the coefficient but no such
term. Here it is added. Different: random images in place of flipped, cropped and resized ones; labels are
class numbers, not one-hot vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

#: Images [batch, 1, height, width], and the class of each pixel that the network answers for: [batch, height,
#: width], 0 on a membrane and 1 in a cell.
Batch = tuple[Tensor, Tensor]

#: How much of the labelled slices is membrane: about 50,000 of their 512x512 pixels each (Ciresan et al.,
#: 2012, "Deep neural networks segment neuronal membranes in electron microscopy images").
MEMBRANE = 0.19
#: Size of a cell in the synthetic images, in pixels.
CELL = 40


@dataclass(frozen=True, kw_only=True)
class UNetMedicalConfig(Config):
    """`filters` from the finest scale to the coarsest; `output_size` follows from them and `image_size`."""

    filters: tuple[int, ...]
    image_size: tuple[int, int]
    output_size: tuple[int, int]
    learning_rate: float
    classes: int = 2


def twice(channels: int, filters: int) -> nn.Sequential:
    """Two 3x3 convolutions without padding, so four pixels fewer each way."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3), nn.ReLU(), nn.Conv2d(filters, filters, 3), nn.ReLU()
    )


def upsample(channels: int) -> nn.Sequential:
    """Twice the size and half the channels.

    Of the 2n+1 rows that come out, this leaves away the first, TensorFlow the last: the same network on
    mirrored images.
    """
    return nn.Sequential(
        nn.ConvTranspose2d(channels, channels // 2, 3, stride=2, padding=1, output_padding=1), nn.ReLU()
    )


def middle(x: Tensor, size: Sequence[int]) -> Tensor:
    """The middle of the maps, cut to a height and a width."""
    top, left = ((have - want) // 2 for have, want in zip(x.shape[2:], size, strict=True))
    return x[:, :, top : top + size[0], left : left + size[1]]


class UNet(nn.Module):
    """Images [batch, 1, height, width] to logits [batch, classes, less height, less width]."""

    def __init__(self, config: UNetMedicalConfig) -> None:
        super().__init__()
        *finer, coarsest = config.filters
        self.encoder = nn.ModuleList()
        channels = 1
        for filters in finer:
            self.encoder.append(twice(channels, filters))
            channels = filters
        self.bottleneck = nn.Sequential(twice(channels, coarsest), nn.Dropout(0.5), upsample(coarsest))
        self.decoder = nn.ModuleList()
        for filters in reversed(finer[1:]):
            self.decoder.append(nn.Sequential(twice(2 * filters, filters), upsample(filters)))
        self.answer = nn.Sequential(twice(2 * finer[0], finer[0]), nn.Conv2d(finer[0], config.classes, 1))
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        x, skips = images, []
        for block in self.encoder:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottleneck(x)
        for block in [*self.decoder, self.answer]:
            x = block(torch.cat([x, middle(skips.pop(), x.shape[2:])], 1))
        return x


class Probabilities(nn.Module):
    """How likely each pixel is of each class."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.module(images).float().softmax(1)


@register
class UNetMedical(Network):
    """U-Net Medical on 572x572 EM slices."""

    name = "unet-medical"
    title = "U-Net Medical"
    domain = "vision"
    task = "segmentation"
    unit = "images"
    dataset = "EM segmentation challenge"
    quality = QualityTarget("DICE Score", 0.9)
    paper = "https://arxiv.org/abs/1505.04597"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow2/Segmentation/UNet_Medical"
    )
    channels_last = True
    sizes = {
        "full": UNetMedicalConfig(
            batch_size=8,
            filters=(64, 128, 256, 512, 1024),
            image_size=(572, 572),
            output_size=(388, 388),
            learning_rate=1e-4,
        ),
        "tiny": UNetMedicalConfig(
            batch_size=4, filters=(8, 16, 32), image_size=(92, 92), output_size=(52, 52), learning_rate=3e-3
        ),
    }

    def build(self, config: UNetMedicalConfig) -> UNet:
        return UNet(config)

    def batch(self, config: UNetMedicalConfig, batch_size: int, generator: torch.Generator) -> Batch:
        """Slices in [-1, 1]: dark membranes around brighter cells, both noisy."""
        cell = cells(batch_size, config.image_size, generator)
        noise = 0.25 * torch.randn(cell.shape, generator=generator)
        images = (0.2 - 0.6 * (1 - cell) + noise).clamp_(-1, 1)
        return images, middle(cell, config.output_size)[:, 0].long()

    def units(self, batch: Batch) -> int:
        return len(batch[0])

    def loss(self, module: nn.Module, batch: Batch, state: None) -> tuple[Tensor, None]:
        images, labels = batch
        logits = module(images).float()
        probabilities = logits.softmax(1).flatten(2)
        truth = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).flatten(2).to(probabilities)
        # Of each class in each image.
        shared = (probabilities * truth).sum(2)
        both = probabilities.square().sum(2) + truth.sum(2)
        dice = (2 * shared + 1e-6) / (both + 1e-6)
        return F.cross_entropy(logits, labels) + 1 - dice.mean(), None

    def optimizer(self, module: nn.Module, config: UNetMedicalConfig) -> torch.optim.Optimizer:
        # Adam's weight decay, not AdamW's: in the recipe it is a term of the loss.
        return torch.optim.Adam(
            module.parameters(), lr=config.learning_rate, eps=1e-7, weight_decay=5e-4, fused=True
        )

    def inference_inputs(
        self, config: UNetMedicalConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (self.batch(config, batch_size, generator)[0],)

    def inference(self, module: nn.Module, config: UNetMedicalConfig) -> Probabilities:
        return Probabilities(module)


def cells(count: int, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """1 in the cells and 0 on the membranes between them: [count, 1, height, width].

    The membranes are where a smooth random surface is near zero: closed curves, as they are in a slice of
    tissue. `MEMBRANE` of each image is theirs.
    """
    height, width = size
    grid = torch.randn(count, 1, height // CELL + 3, width // CELL + 3, generator=generator)
    surface = F.interpolate(grid, size=size, mode="bicubic", align_corners=False).abs()
    least = surface.flatten(1).kthvalue(round(MEMBRANE * height * width), dim=1).values
    return (surface > least[:, None, None, None]).float()
