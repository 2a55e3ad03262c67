"""SSD300 of MLPerf training up to v0.7: Single Shot MultiBox Detector (arXiv:1512.02325) on ResNet-34.

ResNet-34 cut after its third stage (conv4), that stage at stride 1, five further blocks of convolutions with
biases and without normalisation, and on each of the six maps one convolution for boxes and one for classes:
8732 default boxes, 81 classes (COCO's 80 and the background). Nobody published a parameter count; the built
one, 19,972,534, is that of MLPerf's reference to the layer (8,170,304 in the body, 3,574,400 in the further
blocks, 8,227,830 in the heads).

As in the reference: default boxes and their order, matching at IoU 0.5, variances 0.1 and 0.2, smooth L1,
three hard negatives per positive, weight decay on everything; in evaluation decoding and non-maximum
suppression (see `Selection` in `ssd.py` for its fixed shapes). Different: random images with boxes of COCO's
sizes instead of decoded and augmented photographs, a body of random weights, offsets computed in the
pipeline, one sort instead of two.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.ssd import SSD, Selection, SSDConfig, SSDNetwork

FULL = SSDConfig(
    batch_size=32,
    classes=81,
    image_size=300,
    layers=(3, 4, 6),
    extra=((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)),
    maps=(38, 19, 10, 5, 3, 1),
    steps=(8, 16, 32, 64, 100, 300),
    scales=(21, 45, 99, 153, 207, 261, 315),
    ratios=((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    learning_rate=2.5e-4,
)
TINY = SSDConfig(
    batch_size=4,
    classes=11,
    image_size=64,
    layers=(1, 1, 1),
    extra=((32, 64, 2, 1), (32, 64, 2, 1)),
    maps=(8, 4, 2),
    steps=(8, 16, 32),
    scales=(8, 20, 36, 52),
    ratios=((2,), (2, 3), (2,)),
    learning_rate=2e-3,
    selection=Selection(least_score=0.05, iou=0.5, candidates=100, detections=20),
)


@register
class SSD300ResNet34(SSDNetwork):
    """MLPerf training's SSD at 300x300 on COCO-like boxes."""

    name = "ssd300-resnet34"
    title = "SSD300 (ResNet-34, MLPerf training)"
    quality = QualityTarget("mAP, %", 23.0)
    reference = "https://github.com/mlcommons/training/tree/v0.7/single_stage_detector/ssd"
    sizes = {"full": FULL, "tiny": TINY}

    def build(self, config: SSDConfig) -> SSD:
        return SSD(config, ResNet(BasicBlock, [*config.layers, 1]), normalised=False)

    def optimizer(self, module: nn.Module, config: SSDConfig) -> torch.optim.Optimizer:
        # Published: 2.5e-3 for 32 images, after a warm-up and from a pretrained body. Without either, a tenth
        # of it; speed does not depend on it.
        return torch.optim.SGD(
            module.parameters(), lr=config.learning_rate, momentum=0.9, weight_decay=5e-4, fused=True
        )
