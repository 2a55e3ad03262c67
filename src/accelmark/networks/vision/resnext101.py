"""ResNeXt-101 32x4d: Aggregated Residual Transformations for Deep Neural Networks (Xie et al., 2017).

3x3 convolutions in 32 groups of 4 channels, doubled at each stage, with the strides in them. torchvision's
`ResNet` with these numbers is the network to the parameter: 44,177,704, the paper's 44 million. Loss and
optimiser as in NVIDIA's PyTorch recipe: label smoothing 0.1, SGD with momentum 0.875, weight decay 1/16384
and none on batch normalisation. No mixup: the recipe mixes images only when it trains for 250 epochs (to
80.2 %), and the published 79.37 % is near to what it reports for 90 epochs without (79.5 %). Different:
random images instead of decoded and augmented ones, and a constant learning rate.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.classification import Classifier, ResNetConfig, sgd


@register
class ResNeXt101(Classifier):
    """ResNeXt-101 32x4d on ImageNet-sized images."""

    name = "resnext101-32x4d"
    title = "ResNeXt-101 32x4d"
    quality = QualityTarget("top-1 accuracy, %", 79.37)
    paper = "https://arxiv.org/abs/1611.05431"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnext101-32x4d"
    sizes = {
        "full": ResNetConfig(
            batch_size=32,
            parameters=44_177_704,
            layers=(3, 4, 23, 3),
            width=4,
            groups=32,
            image_size=224,
            classes=1000,
            learning_rate=0.0256,
        ),
        "tiny": ResNetConfig(
            batch_size=8,
            layers=(1, 1, 1, 1),
            width=4,
            groups=4,
            image_size=64,
            classes=10,
            learning_rate=2e-3,
        ),
    }

    def build(self, config: ResNetConfig) -> ResNet:
        return ResNet(
            Bottleneck,
            list(config.layers),
            num_classes=config.classes,
            groups=config.groups,
            width_per_group=config.width,
        )

    def optimizer(self, module: nn.Module, config: ResNetConfig) -> torch.optim.Optimizer:
        return sgd(module, config, weight_decay=1 / 16384)
