"""SE-ResNeXt-101 32x4d: Squeeze-and-Excitation Networks (Hu et al., 2018, arXiv:1709.01507) on ResNeXt-101.

Each block of ResNeXt-101 32x4d weighs its channels, after its last convolution and before the sum, by two
small layers over their means; these have a sixteenth of the channels between them. timm's `ResNet` with such
blocks is the network to the parameter: 48,955,416, the paper's 49.0 million. Loss and optimiser as for
ResNeXt-101, which NVIDIA's recipe shares. Different, besides what is there: the last batch normalisation of a
block starts at 0, timm's default, where the recipe's starts at 1; without warm-up the loss falls more
steadily so.
"""

from __future__ import annotations

import torch
from timm.models.resnet import Bottleneck, ResNet
from torch import nn

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.classification import Classifier, ResNetConfig, sgd
from accelmark.networks.vision.resnext101 import ResNeXt101


@register
class SEResNeXt101(Classifier):
    """SE-ResNeXt-101 32x4d on ImageNet-sized images."""

    name = "se-resnext101-32x4d"
    title = "SE-ResNeXt-101 32x4d"
    quality = QualityTarget("top-1 accuracy, %", 78.82)
    paper = "https://arxiv.org/abs/1709.01507"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/se-resnext101-32x4d"
    sizes = {
        "full": ResNetConfig(
            batch_size=32,
            parameters=48_955_416,
            layers=(3, 4, 23, 3),
            width=4,
            groups=32,
            image_size=224,
            classes=1000,
            learning_rate=0.0256,
        ),
        "tiny": ResNeXt101.sizes["tiny"],
    }

    def build(self, config: ResNetConfig) -> ResNet:
        return ResNet(
            Bottleneck,
            config.layers,
            num_classes=config.classes,
            cardinality=config.groups,
            base_width=config.width,
            block_args={"attn_layer": "se"},
        )

    def optimizer(self, module: nn.Module, config: ResNetConfig) -> torch.optim.Optimizer:
        return sgd(module, config, weight_decay=1 / 16384)
