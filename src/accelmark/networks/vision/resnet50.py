"""ResNet-50 v1.5: Deep Residual Learning for Image Recognition (He et al., 2015, arXiv:1512.03385).

v1.5 moves a stage's stride from the first 1x1 convolution of its first block to the 3x3 one. It is the
network behind the published rows, and torchvision's `resnet50` is it to the parameter.

As in NVIDIA's recipe: label smoothing 0.1, SGD with momentum 0.875, weight decay 1/32768 and none on batch
normalisation. Different: random images instead of decoded and augmented ones, and a constant learning
rate instead of warm-up and cosine decay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck, ResNet

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(Config):
    """Blocks per stage, inner channels of the first stage, the square image's side, the number of classes."""

    layers: tuple[int, int, int, int]
    width: int
    image_size: int
    classes: int
    learning_rate: float


@register
class ResNet50(Network):
    """ResNet-50 v1.5 on ImageNet-sized images."""

    name = "resnet50-v1.5"
    title = "ResNet-50 v1.5"
    domain = "vision"
    task = "image classification"
    unit = "images"
    dataset = "ImageNet2012"
    quality = QualityTarget("top-1 accuracy, %", 75.9)
    paper = "https://arxiv.org/abs/1512.03385"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5"
    sizes = {
        "full": ResNetConfig(
            batch_size=32,
            parameters=25_557_032,
            layers=(3, 4, 6, 3),
            width=64,
            image_size=224,
            classes=1000,
            learning_rate=0.0256,
        ),
        "tiny": ResNetConfig(
            batch_size=8, layers=(1, 1, 1, 1), width=16, image_size=64, classes=10, learning_rate=2e-3
        ),
    }
    channels_last = True

    def build(self, config: ResNetConfig) -> ResNet:
        return ResNet(
            Bottleneck, list(config.layers), num_classes=config.classes, width_per_group=config.width
        )

    def batch(
        self, config: ResNetConfig, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        # Normalised photographs have mean 0 and deviation 1 per channel, and so has this noise.
        images = torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator)
        labels = torch.randint(config.classes, (batch_size,), generator=generator)
        return images, labels

    def units(self, batch: tuple[Tensor, Tensor]) -> int:
        return batch[0].shape[0]

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor], state: None) -> tuple[Tensor, None]:
        images, labels = batch
        return F.cross_entropy(module(images).float(), labels, label_smoothing=0.1), None

    def optimizer(self, module: nn.Module, config: ResNetConfig) -> torch.optim.Optimizer:
        # Batch normalisation's scales and shifts are the vectors, and the recipe decays none of them. The
        # only other vector is the classifier's bias, which does not matter to speed.
        decayed = [p for p in module.parameters() if p.ndim > 1]
        vectors = [p for p in module.parameters() if p.ndim <= 1]
        groups = [{"params": decayed}, {"params": vectors, "weight_decay": 0.0}]
        # Published: 0.256 per 256 images, reached by warm-up. Without warm-up the rate of 25 images is as
        # far as it is safe to go, however large the batch; speed does not depend on it.
        rate = min(config.learning_rate, config.batch_size * 1e-3)
        return torch.optim.SGD(groups, lr=rate, momentum=0.875, weight_decay=1 / 32768)

    def inference_inputs(
        self, config: ResNetConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (self.batch(config, batch_size, generator)[0],)
