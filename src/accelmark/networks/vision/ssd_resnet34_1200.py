"""SSD of MLPerf inference v0.5 to v2.0: ResNet-34 at 1200x1200, 15130 default boxes, 81 classes.

MLPerf training's SSD (`ssd300_resnet34.py`) for large images: the same layers and therefore the same
19,972,534 parameters, but the fourth further block at stride 2, and the convolutions that answer at stride 3:
from maps of 150, 75, 38, 19, 9 and 7 cells a side they read 50, 25, 13, 7, 3 and 3. MLPerf's rules give 433
billion operations per sample, a multiplication and an addition each counted; the convolutions built here have
432.8. Open Model Zoo publishes 433.411 and 20.058 million parameters (`ssd-resnet34-1200-onnx`): it counts
the exported graph, which also holds the 15130 default boxes, 60,520 numbers, and does the decoding.

As in the reference: default boxes (those for 300x300 times four), and in inference decoding, scores above
0.05, suppression at IoU 0.5 per class and 200 detections (see `Selection` in `ssd.py` for its fixed shapes).
The network is published for inference only; it trains here with the loss and the optimiser of the training
benchmark. Different: random images with boxes of COCO's sizes.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.ssd import SSD, Selection, SSDConfig, SSDNetwork

HEAD_STRIDE = 3

FULL = SSDConfig(
    batch_size=4,
    classes=81,
    image_size=1200,
    layers=(3, 4, 6),
    extra=((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 2, 0), (128, 256, 1, 0)),
    maps=(50, 25, 13, 7, 3, 3),
    steps=(24, 48, 1200 / 13, 1200 / 7, 400, 400),
    scales=(84, 180, 396, 612, 828, 1044, 1260),
    ratios=((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    learning_rate=2.5e-4,
)
TINY = SSDConfig(
    batch_size=4,
    classes=11,
    image_size=144,
    layers=(1, 1, 1),
    extra=((32, 64, 2, 1), (32, 64, 2, 0)),
    maps=(6, 3, 2),
    steps=(24, 48, 72),
    scales=(18, 45, 81, 117),
    ratios=((2,), (2, 3), (2,)),
    learning_rate=2e-3,
    selection=Selection(least_score=0.05, iou=0.5, candidates=100, detections=20),
)


@register
class SSDResNet34At1200(SSDNetwork):
    """MLPerf inference's SSD at 1200x1200."""

    name = "ssd-resnet34-1200"
    title = "SSD 1200x1200 (ResNet-34, MLPerf inference)"
    quality = QualityTarget("mAP", 0.2)
    reference = "https://github.com/mlcommons/inference/tree/r1.0/vision/classification_and_detection"
    sizes = {"full": FULL, "tiny": TINY}

    def build(self, config: SSDConfig) -> SSD:
        body = ResNet(BasicBlock, [*config.layers, 1])
        return SSD(config, body, normalised=False, head_stride=HEAD_STRIDE)

    def optimizer(self, module: nn.Module, config: SSDConfig) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            module.parameters(), lr=config.learning_rate, momentum=0.9, weight_decay=5e-4, fused=True
        )
