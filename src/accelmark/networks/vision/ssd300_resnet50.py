"""SSD300 v1.1: Single Shot MultiBox Detector (Liu et al., 2015, arXiv:1512.02325) on a ResNet-50 body.

The network of NVIDIA's SSD v1.1 for PyTorch: ResNet-50 v1.5 cut after its third stage (conv4), that stage
at stride 1, five further blocks, and on each of the six maps one convolution for boxes and one for classes:
8732 default boxes, 81 classes (COCO's 80 and the background).

As in the reference: default boxes and their order, matching at IoU 0.5 in the data pipeline (here when the
batch is made), variances 0.1 and 0.2, smooth L1, three hard negatives per positive, no weight decay on
vectors. Different: random images with boxes of COCO's sizes instead of decoded and augmented photographs;
the body starts from random weights; the matched boxes are turned into offsets in the pipeline too, where the
reference does that small elementwise work in the step; hardest negatives are found with one sort, not two.
Inference includes decoding and non-maximum suppression, as the reference's evaluation does: see `Selection`
in `ssd.py` for its fixed shapes.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.vision.ssd import SSD, Selection, SSDConfig, SSDNetwork

FULL = SSDConfig(
    batch_size=8,
    classes=81,
    image_size=300,
    layers=(3, 4, 6),
    extra=((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)),
    maps=(38, 19, 10, 5, 3, 1),
    steps=(8, 16, 32, 64, 100, 300),
    scales=(21, 45, 99, 153, 207, 261, 315),
    ratios=((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    learning_rate=2.6e-4,
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
    learning_rate=2.6e-3,
    selection=Selection(least_score=0.05, iou=0.5, candidates=100, detections=20),
)


@register
class SSD300ResNet50(SSDNetwork):
    """SSD v1.1 at 300x300 on COCO-like boxes."""

    name = "ssd300-resnet50"
    title = "SSD300 v1.1 (ResNet-50)"
    quality = QualityTarget("mAP", 0.25)
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Detection/SSD"
    sizes = {"full": FULL, "tiny": TINY}
    least_batch_size = 2  # the last feature map is one value per channel

    def build(self, config: SSDConfig) -> SSD:
        return SSD(config, ResNet(Bottleneck, [*config.layers, 1]), normalised=True)

    def optimizer(self, module: nn.Module, config: SSDConfig) -> torch.optim.Optimizer:
        decayed = [p for p in module.parameters() if p.ndim > 1]
        vectors = [p for p in module.parameters() if p.ndim <= 1]
        groups = [{"params": decayed}, {"params": vectors, "weight_decay": 0.0}]
        # Published: 2.6e-3 for 32 images, after a warm-up over an epoch and from a pretrained body. Without
        # either, a tenth of it; speed does not depend on it.
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=0.9, weight_decay=5e-4, fused=True)
