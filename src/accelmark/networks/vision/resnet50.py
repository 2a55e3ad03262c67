"""ResNet-50 v1.5: Deep Residual Learning for Image Recognition (He et al., 2015, arXiv:1512.03385).

v1.5 moves a stage's stride from the first 1x1 convolution of its first block to the 3x3 one. It is the
network behind the published rows, and torchvision's `resnet50` is it to the parameter.

As in NVIDIA's recipe: label smoothing 0.1, SGD with momentum 0.875, weight decay 1/32768 and none on batch
normalisation. Different: random images instead of decoded and augmented ones, and a constant learning
rate instead of warm-up and cosine decay.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.classification import Classifier, ResNetConfig, sgd

FULL = ResNetConfig(
    batch_size=32,
    parameters=25_557_032,
    layers=(3, 4, 6, 3),
    width=64,
    image_size=224,
    classes=1000,
    learning_rate=0.0256,
)
TINY = ResNetConfig(
    batch_size=8, layers=(1, 1, 1, 1), width=16, image_size=64, classes=10, learning_rate=2e-3
)


@register
class ResNet50(Classifier):
    """ResNet-50 v1.5 on ImageNet-sized images."""

    name = "resnet50-v1.5"
    title = "ResNet-50 v1.5"
    quality = QualityTarget("top-1 accuracy, %", 75.9)
    paper = "https://arxiv.org/abs/1512.03385"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5"
    sizes = {"full": FULL, "tiny": TINY}

    def build(self, config: ResNetConfig) -> ResNet:
        return ResNet(
            Bottleneck, list(config.layers), num_classes=config.classes, width_per_group=config.width
        )

    def optimizer(self, module: nn.Module, config: ResNetConfig) -> torch.optim.Optimizer:
        return sgd(module, config, weight_decay=1 / 32768)
