"""U-Net Industrial: the small U-Net of NVIDIA's TensorFlow recipe that finds defects on DAGM 2007's textures.

The recipe's `tinyUNet`: U-Net (Ronneberger et al., 2015, arXiv:1505.04597) with padded convolutions, a fourth
of its width, and upsampling by nearest neighbours and a 2x2 convolution. Each decoder block hands on half its
filters. 512x512 grey pixels in, the probability of a defect for each of them out.

1,850,305 parameters, counted layer by layer in the tests. A comment in the recipe says 1,824,945, 1.4 % less,
and 36,950,273 for the wide variant; the layers beside it give 29,137,793 for that one, and 36,950,273 only if
nothing on the way up halved its filters. So the comment is of other layers than those behind the published
rows.

As in the recipe: the adaptive loss (below 0.3 the dice loss of the whole batch, else cross-entropy; the
recipe's text says it the other way round, its code as here), He's uniform weights, centred RMSProp, L2 of all
parameters, training on defective images only. Different: random images in place of decoded, flipped and
rotated ones; a constant learning rate instead of decay by a fifth every 500 steps; both losses are computed
and one is chosen, where TensorFlow computes the one (elementwise work on one channel).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

#: Images and which of their pixels are a defect's (0 or 1), both [batch, 1, height, width].
Batch = tuple[Tensor, Tensor]

#: Dice loss below which it is what is minimised.
SWITCH = 0.3

#: Half axes of a defect's ellipse relative to the image's side, uniform in between: 1.3 % of the image in
#: the mean. DAGM marks each defect with one ellipse around it; no published size of them was found.
HALF_AXES = (0.03, 0.10)


@dataclass(frozen=True, kw_only=True)
class UNetIndustrialConfig(Config):
    """`filters` of the encoder's blocks, `bottleneck` of the block between it and the decoder."""

    filters: tuple[int, ...]
    bottleneck: int
    output_size: tuple[int, int]
    learning_rate: float
    classes: int = 1


def twice(channels: int, first: int, second: int) -> nn.Sequential:
    """Two 3x3 convolutions that keep the image's size."""
    return nn.Sequential(
        nn.Conv2d(channels, first, 3, padding=1), nn.ReLU(), nn.Conv2d(first, second, 3, padding=1), nn.ReLU()
    )


def upsample(channels: int, filters: int) -> nn.Sequential:
    """Twice the size by repeating pixels, then a 2x2 convolution, padded below and to the right."""
    return nn.Sequential(
        nn.Upsample(scale_factor=2), nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels, filters, 2), nn.ReLU()
    )


class UNetIndustrial(nn.Module):
    """Images [batch, 1, height, width] to logits of the same shape."""

    def __init__(self, config: UNetIndustrialConfig) -> None:
        super().__init__()
        first, *deeper = config.filters
        channels = 1
        self.encoder = nn.ModuleList()
        for filters in config.filters:
            self.encoder.append(twice(channels, filters, filters))
            channels = filters
        channels = config.bottleneck // 2
        self.bottleneck = nn.Sequential(
            twice(config.filters[-1], config.bottleneck, config.bottleneck),
            upsample(config.bottleneck, channels),
        )
        self.decoder = nn.ModuleList()
        for filters in reversed(deeper):
            half = filters // 2
            self.decoder.append(nn.Sequential(twice(channels + filters, filters, half), upsample(half, half)))
            channels = half
        self.answer = nn.Sequential(
            twice(channels + first, first, first), nn.Conv2d(first, config.classes, 1)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        x, skips = images, []
        for block in self.encoder:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottleneck(x)
        for block in [*self.decoder, self.answer]:
            x = block(torch.cat([x, skips.pop()], 1))
        return x


class Probabilities(nn.Module):
    """How likely each pixel is a defect's."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.module(images).float().sigmoid()


class RMSProp(torch.optim.Optimizer):
    """Centred RMSProp with momentum, `epsilon` added to the variance before its root, as in TensorFlow.

    torch's own adds it after the root. Where a gradient hardly changes (a dead filter's, which the L2 term
    alone moves), rounding makes its variance negative there, and the weight not a number. TensorFlow's mean
    of squares starts at one, which costs the first hundred steps; here it starts at zero.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        decay: float,
        momentum: float,
        weight_decay: float = 0.0,
        epsilon: float = 1e-10,
    ) -> None:
        defaults = {
            "lr": lr,
            "decay": decay,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "epsilon": epsilon,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if not weights:
                continue
            for p in weights:
                if not self.state[p]:
                    self.state[p] = {key: torch.zeros_like(p) for key in ("square", "mean", "momentum")}
            square, mean, momentum = (
                [self.state[p][key] for p in weights] for key in ("square", "mean", "momentum")
            )
            # Each line is one operation on all weights.
            gradients = torch._foreach_add([p.grad for p in weights], weights, alpha=group["weight_decay"])
            torch._foreach_mul_(square, group["decay"])
            torch._foreach_addcmul_(square, gradients, gradients, 1 - group["decay"])
            torch._foreach_lerp_(mean, gradients, 1 - group["decay"])
            deviation = torch._foreach_addcmul(square, mean, mean, -1.0)
            torch._foreach_clamp_min_(deviation, 0.0)
            torch._foreach_add_(deviation, group["epsilon"])
            torch._foreach_sqrt_(deviation)
            torch._foreach_mul_(momentum, group["momentum"])
            torch._foreach_addcdiv_(momentum, gradients, deviation, group["lr"])
            torch._foreach_sub_(weights, momentum)
        return loss


@register
class UNetIndustrialNetwork(Network):
    """U-Net Industrial (tiny variant) on 512x512 grey images."""

    name = "unet-industrial"
    title = "U-Net Industrial"
    domain = "vision"
    task = "segmentation"
    unit = "images"
    dataset = "DAGM2007"
    quality = QualityTarget("IoU Threshold 0.95", 0.99)
    paper = "https://arxiv.org/abs/1505.04597"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow/Segmentation/UNet_Industrial"
    )
    channels_last = True
    sizes = {
        "full": UNetIndustrialConfig(
            batch_size=16,
            filters=(32, 32, 64, 128),
            bottleneck=256,
            output_size=(512, 512),
            learning_rate=1e-4,
        ),
        "tiny": UNetIndustrialConfig(
            batch_size=4, filters=(8, 8, 16), bottleneck=32, output_size=(64, 64), learning_rate=1e-3
        ),
    }

    def build(self, config: UNetIndustrialConfig) -> UNetIndustrial:
        return UNetIndustrial(config)

    def batch(self, config: UNetIndustrialConfig, batch_size: int, generator: torch.Generator) -> Batch:
        """Textures in [-1, 1], each with one defect, as the recipe trains on defective images only."""
        height, width = config.output_size
        masks = ellipses(batch_size, height, width, generator)
        texture = 0.2 * torch.randn(batch_size, 1, height, width, generator=generator)
        return (texture + 0.3 * masks).clamp_(-1, 1), masks

    def units(self, batch: Batch) -> int:
        return len(batch[0])

    def loss(self, module: nn.Module, batch: Batch, state: None) -> tuple[Tensor, None]:
        images, masks = batch
        logits = module(images).float()
        probabilities = logits.sigmoid()
        # Of all pixels of the batch together; the 1 makes two empty masks equal.
        shared, both = (probabilities * masks).sum(), probabilities.sum() + masks.sum()
        dice = 1 - (2 * shared + 1) / (both + 1)
        entropy = F.binary_cross_entropy_with_logits(logits, masks)
        return torch.where(dice < SWITCH, dice, entropy), None

    def optimizer(self, module: nn.Module, config: UNetIndustrialConfig) -> RMSProp:
        return RMSProp(
            module.parameters(), lr=config.learning_rate, decay=0.9, momentum=0.8, weight_decay=1e-5
        )

    def inference_inputs(
        self, config: UNetIndustrialConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (self.batch(config, batch_size, generator)[0],)

    def inference(self, module: nn.Module, config: UNetIndustrialConfig) -> Probabilities:
        return Probabilities(module)


def ellipses(count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Masks [count, 1, height, width], each 1 inside one ellipse in any direction that lies in the image."""
    least, most = HALF_AXES
    axes = torch.rand(count, 2, 1, 1, generator=generator) * (most - least) + least
    angle = torch.rand(count, 1, 1, generator=generator) * math.pi
    middle = torch.rand(count, 2, 1, 1, generator=generator) * (1 - 2 * most) + most
    y = ((torch.arange(height) + 0.5) / height)[:, None] - middle[:, 0]
    x = ((torch.arange(width) + 0.5) / width) - middle[:, 1]
    along = (x * angle.cos() + y * angle.sin()) / axes[:, 0]
    across = (y * angle.cos() - x * angle.sin()) / axes[:, 1]
    return (along.square() + across.square() < 1).float()[:, None]
