"""Bare loops over the libraries' models: what a user would write by hand, without anything of accelmark.

Model, loss and optimiser are made from the library here; only the batch is ours, so that both sides see the
same data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm
import torch
import torchvision
import transformers
from peer import Peer
from torch import Tensor, nn


def classifier(module: nn.Module) -> Peer:
    """Label smoothing and SGD with momentum, for images in the channels-last layout."""
    module = module.to(memory_format=torch.channels_last).train()

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        images, labels = batch[:2]
        return nn.functional.cross_entropy(module(images), labels, label_smoothing=0.1), None

    decayed = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 3e-5}, {"params": vectors, "weight_decay": 0.0}]
    return Peer(module, torch.optim.SGD(groups, lr=1e-3, momentum=0.875, fused=True), loss)


def efficientnet(module: nn.Module) -> Peer:
    """The classifier's, with RMSProp."""
    peer = classifier(module)
    module = peer.module
    decayed = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 1e-5}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.RMSprop(groups, lr=1e-3, alpha=0.9, momentum=0.9, eps=0.03)
    return peer._replace(optimizer=optimizer)


def mask_rcnn() -> Peer:
    """torchvision's with frozen normalisation, from its second stage on."""
    module = torchvision.models.detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, _skip_resize=True
    ).train()
    body = module.backbone.body
    for name, child in list(body.named_modules()):
        if isinstance(child, nn.BatchNorm2d):
            frozen = torchvision.ops.FrozenBatchNorm2d(child.num_features)
            if name.endswith("bn3"):
                frozen.weight.fill_(0.5)  # as ours: without it random weights grow from block to block
            parent, _, last = name.rpartition(".")
            setattr(body.get_submodule(parent) if parent else body, last, frozen)
    for part in (body.conv1, body.layer1):
        part.requires_grad_(False)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        return sum(module(*batch).values()), None

    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=2e-3, momentum=0.9, weight_decay=1e-4, fused=True)
    return Peer(module, optimizer, loss)


def bert(width: int, layers: int, heads: int) -> Peer:
    """transformers' model for questions, with its own loss and AdamW."""
    settings = transformers.BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
    )
    module = transformers.BertForQuestionAnswering(settings).train()

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        ids, segments, mask = batch["inputs"]
        outputs = module(
            ids,
            attention_mask=mask,
            token_type_ids=segments,
            start_positions=batch["start"],
            end_positions=batch["end"],
        )
        return outputs.loss, None

    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-5, eps=1e-6, weight_decay=0.01, fused=True)
    return Peer(module, optimizer, loss)


PEERS: dict[str, Callable[[Any], Peer]] = {
    "resnet50-v1.5": lambda config: classifier(torchvision.models.resnet50()),
    "resnext101-32x4d": lambda config: classifier(
        torchvision.models.ResNet(
            torchvision.models.resnet.Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=4
        )
    ),
    "se-resnext101-32x4d": lambda config: classifier(timm.create_model("seresnext101_32x4d")),
    "efficientnet-b0": lambda config: efficientnet(torchvision.models.efficientnet_b0()),
    "mask-rcnn-r50-fpn": lambda config: mask_rcnn(),
    "bert-base": lambda config: bert(768, 12, 12),
}
