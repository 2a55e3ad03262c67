"""EfficientNet-B0 and -B4: Rethinking Model Scaling for Convolutional Neural Networks (Tan and Le, 2019).

B0 is the paper's table 1; B4 has 1.4 times the channels, 1.8 times the blocks and images of 380 pixels.
torchvision's `EfficientNet` with these numbers is the network to the parameter: 5,288,548 and 19,341,616, the
paper's 5.3 and 19 million. Batch normalisation has the momentum and epsilon of the authors' TensorFlow code,
whose "same" padding falls on the right and below where torchvision's is even: the same arithmetic on images
shifted by a pixel.

As in NVIDIA's TensorFlow recipe: RMSProp with decay and momentum 0.9, weight decay, label smoothing 0.1,
stochastic depth; B4 with mixup at 0.2, as the page says: each image is mixed with the one at the mirrored
place of its batch. The input pipeline draws the shares, and the step mixes the images on the accelerator.

Different: random images, to which nothing of the augmentation is done (AutoAugment, random crops, flips); the
losses of both labels are mixed instead of their one-hot vectors, which gives the same number; batch
normalisation over each accelerator's own images, where the recipe's B4 takes all; a constant learning rate;
no moving average of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.efficientnet import EfficientNet, MBConvConfig

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.classification import (
    Classifier,
    ClassifierConfig,
    without_decay_of_vectors,
)

#: The paper's table 1: expansion, kernel, stride, channels in and out, blocks.
STAGES = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)


@dataclass(frozen=True, kw_only=True)
class EfficientNetConfig(ClassifierConfig):
    """How many times B0's channels (rounded to eights) and blocks (rounded up); the classifier's dropout."""

    width: float
    depth: float
    dropout: float


class _EfficientNet(Classifier):
    paper = "https://arxiv.org/abs/1905.11946"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow2/Classification/ConvNets/efficientnet"

    def build(self, config: EfficientNetConfig) -> EfficientNet:
        stages = [
            MBConvConfig(*numbers, width_mult=config.width, depth_mult=config.depth) for numbers in STAGES
        ]
        return EfficientNet(
            stages,
            dropout=config.dropout,
            num_classes=config.classes,
            norm_layer=partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01),
        )

    def optimizer(self, module: nn.Module, config: EfficientNetConfig) -> torch.optim.Optimizer:
        # Published: 0.005 per 128 images, reached by warm-up.
        rate = min(config.learning_rate, config.batch_size * 0.005 / 128)
        # Keras adds its 0.001 under the root, torch after it; Keras's L2 of 5e-6 has twice that as gradient.
        return torch.optim.RMSprop(
            without_decay_of_vectors(module),
            lr=rate,
            alpha=0.9,
            momentum=0.9,
            eps=math.sqrt(0.001),
            weight_decay=2 * 5e-6,
        )


TINY = EfficientNetConfig(
    batch_size=8,
    width=0.25,
    depth=0.5,  # two blocks in the later stages, so that some are dropped at random
    dropout=0.0,
    image_size=64,
    classes=10,
    learning_rate=5e-4,
)


@register
class EfficientNetB0(_EfficientNet):
    """EfficientNet-B0 at 224 pixels."""

    name = "efficientnet-b0"
    title = "EfficientNet-B0"
    # The pages list it for speed only; the paper's table 2 gives its accuracy.
    quality = QualityTarget("top-1 accuracy, %", 77.1)
    sizes = {
        "full": EfficientNetConfig(
            batch_size=32,
            parameters=5_288_548,
            width=1.0,
            depth=1.0,
            dropout=0.2,
            image_size=224,
            classes=1000,
            learning_rate=0.01,
        ),
        "tiny": TINY,
    }


@register
class EfficientNetB4(_EfficientNet):
    """EfficientNet-B4 at 380 pixels, with mixup."""

    name = "efficientnet-b4"
    title = "EfficientNet-B4"
    quality = QualityTarget("top-1 accuracy, %", 82.81)
    sizes = {
        "full": EfficientNetConfig(
            batch_size=16,
            parameters=19_341_616,
            width=1.4,
            depth=1.8,
            dropout=0.4,
            image_size=380,
            classes=1000,
            learning_rate=0.01,
        ),
        "tiny": TINY,
    }

    #: Both parameters of the beta distribution that the first label's share is drawn from.
    mixup = 0.2

    def batch(
        self, config: EfficientNetConfig, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        images, labels = super().batch(config, batch_size, generator)
        # A beta variate as a ratio of gamma variates, the only way that takes a generator.
        gammas = torch._standard_gamma(torch.full((2, batch_size), self.mixup), generator=generator)
        share = (gammas[0] + 1e-12) / (gammas.sum(0) + 2e-12)
        return images, labels, share

    def loss(self, module: nn.Module, batch: Any, state: None) -> tuple[Tensor, None]:
        images, labels, share = batch
        mixed = torch.lerp(images.flip(0), images, share[:, None, None, None])
        logits = module(mixed).float()
        losses = [
            F.cross_entropy(logits, each, label_smoothing=0.1, reduction="none")
            for each in (labels, labels.flip(0))
        ]
        return (share * losses[0] + (1 - share) * losses[1]).mean(), None
