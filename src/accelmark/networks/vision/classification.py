"""What the classifiers of ImageNet have in common: images and labels, the smoothed loss, NVIDIA's SGD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(Config):
    """The square image's side, the number of classes, and the learning rate that is not exceeded."""

    image_size: int
    classes: int
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ClassifierConfig):
    """Blocks per stage; `groups` of the 3x3 convolutions, and the channels of each in the first stage."""

    layers: tuple[int, int, int, int]
    width: int
    groups: int = 1


class Classifier(Network):
    """A network that tells one of ImageNet's classes of an image."""

    domain = "vision"
    task = "image classification"
    unit = "images"
    dataset = "ImageNet2012"
    channels_last = True

    def batch(self, config: Any, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        # Normalised photographs have mean 0 and deviation 1 per channel, and so has this noise.
        images = torch.randn(batch_size, 3, config.image_size, config.image_size, generator=generator)
        labels = torch.randint(config.classes, (batch_size,), generator=generator)
        return images, labels

    def units(self, batch: tuple[Tensor, ...]) -> int:
        return batch[0].shape[0]

    def loss(self, module: nn.Module, batch: Any, state: None) -> tuple[Tensor, None]:
        images, labels = batch
        return F.cross_entropy(module(images).float(), labels, label_smoothing=0.1), None

    def inference_inputs(self, config: Any, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        return (self.batch(config, batch_size, generator)[0],)

    def dynamic_shapes(self, config: Any) -> tuple[Any, ...]:
        # All before the pooling is convolution, so an image may have any height and width, but for 32 pixels
        # and fewer: the last stage, 32 times smaller, is then a single cell, which exports as another graph.
        sides = {2: torch.export.Dim("height", min=33), 3: torch.export.Dim("width", min=33)}
        return ({0: torch.export.Dim("batch"), **sides},)


def without_decay_of_vectors(module: nn.Module) -> list[dict[str, Any]]:
    """Parameter groups that keep weight decay off batch normalisation, as NVIDIA's recipes do."""
    # Batch normalisation's scales and shifts are the vectors, and the recipes decay none of them. The only
    # other vectors are biases (the classifier's, squeeze-and-excitation's), which do not matter to speed.
    decayed = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim <= 1]
    return [{"params": decayed}, {"params": vectors, "weight_decay": 0.0}]


def sgd(module: nn.Module, config: ClassifierConfig, weight_decay: float) -> torch.optim.Optimizer:
    """SGD with momentum 0.875 and no decay of batch normalisation, as in NVIDIA's recipes for ResNets."""
    groups = without_decay_of_vectors(module)
    # Published: 0.256 per 256 images, reached by warm-up. Without warm-up the rate of 25 images is as far as
    # it is safe to go, however large the batch; speed does not depend on it.
    rate = min(config.learning_rate, config.batch_size * 1e-3)
    return torch.optim.SGD(groups, lr=rate, momentum=0.875, weight_decay=weight_decay, fused=True)
