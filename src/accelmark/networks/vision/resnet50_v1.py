"""ResNet-50 as in its paper: Deep Residual Learning for Image Recognition (He et al., 2015).

A stage's stride is in the first 1x1 convolution of its first block, so the 3x3 convolution after it sees a
quarter of the pixels: the same parameters as v1.5 and 6 % less arithmetic. The inference tables list it apart
from v1.5. Everything else, and how it is trained here, is as in `resnet50.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.classification import Classifier, ResNetConfig, sgd
from accelmark.networks.vision.resnet50 import FULL, TINY


class StrideFirst(Bottleneck):
    """A block that halves the image in its first convolution."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.conv1.stride, self.conv2.stride = self.conv2.stride, self.conv1.stride


@register
class ResNet50V1(Classifier):
    """ResNet-50 v1 on ImageNet-sized images."""

    name = "resnet50-v1"
    title = "ResNet-50 v1"
    # The pages list it for speed only; the paper's single-crop error is 24.7 %.
    quality = QualityTarget("top-1 accuracy, %", 75.3)
    paper = "https://arxiv.org/abs/1512.03385"
    reference = "https://github.com/KaimingHe/deep-residual-networks"
    sizes = {"full": FULL, "tiny": TINY}

    def build(self, config: ResNetConfig) -> ResNet:
        return ResNet(
            StrideFirst, list(config.layers), num_classes=config.classes, width_per_group=config.width
        )

    def optimizer(self, module: nn.Module, config: ResNetConfig) -> torch.optim.Optimizer:
        return sgd(module, config, weight_decay=1 / 32768)
