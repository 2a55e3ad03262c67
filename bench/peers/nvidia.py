"""NVIDIA's PyTorch examples of vision and language: their own model and loss, from the user's clone.

    git clone https://github.com/NVIDIA/DeepLearningExamples

Nothing of it is copied here: its files are imported from where they lie. What exists only for a GPU is stood
in for: apex's fused layer normalisation by torch's, and in the Transformer the batched products that allocate
their result on a GPU by the same with the result on the CPU. Logging does nothing, and SSD's body is not
downloaded. In single precision on a CPU the rest runs as it is. Optimisers are torch's, as the examples use
them; where an example brings its own (LAMB for Transformer-XL), both sides take the one that ours declares.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from peer import Peer, load, stand_in
from torch import Tensor, nn
from torchvision.models.resnet import resnet50


class Scores(torch.autograd.Function):
    """Queries times keys, whose gradients lie row by row, as that attention wants them."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b).detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        by_b = row_by_row(gradient.transpose(1, 2), a)
        return row_by_row(gradient, b.transpose(1, 2)), by_b.transpose(1, 2)


class Mix(torch.autograd.Function):
    """Weights times values; the result and the values' gradients lie row by row."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return row_by_row(a, b).detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return torch.bmm(gradient, b.transpose(1, 2)), row_by_row(a.transpose(1, 2), gradient)


def row_by_row(a: Tensor, b: Tensor) -> Tensor:
    """The product of [n, rows, k] and [n, k, columns], in memory that is [rows, n, columns]."""
    result = a.new_empty(a.shape[1], a.shape[0], b.shape[2]).transpose(0, 1)
    return torch.bmm(a, b, out=result)


def transformer_xl(examples: Path, config: Any) -> Peer:
    """PyTorch/LanguageModeling/Transformer-XL, base or large, with its adaptive softmax."""
    # Its tools ask for a GPU's place when they are read.
    with mock.patch("pynvml.nvmlInit"):
        source = load(examples / "PyTorch/LanguageModeling/Transformer-XL/pytorch", "mem_transformer")
    clusters = [*config.cutoffs]
    module = source.MemTransformerLM(
        n_token=config.vocabulary,
        n_layer=config.layers,
        n_head=config.heads,
        d_model=config.width,
        d_head=config.head_width,
        d_inner=config.inner_width,
        dropout=config.dropout,
        dropatt=config.attention_dropout,
        dtype=None,
        tie_weight=True,
        d_embed=config.width,
        div_val=config.divisor,
        tie_projs=[False] + [True] * len(clusters),
        pre_lnorm=False,
        tgt_len=config.sequence_length,
        ext_len=0,
        mem_len=config.memory_length,
        cutoffs=clusters,
        same_length=False,
        attn_type=0,
        clamp_len=-1,
        sample_softmax=-1,
    )
    for weight in module.parameters():
        nn.init.normal_(weight, 0.0, 0.02)

    def loss(batch: Any, state: Any) -> tuple[Tensor, Any]:
        data, target, _ = batch
        losses, memory = module(data.t(), target.t(), state)
        return losses.float().mean(), memory

    return Peer(module, torch.optim.Adam(module.parameters(), lr=2.5e-4), loss)


def ssd300(examples: Path, config: Any) -> Peer:
    """PyTorch/Detection/SSD, ResNet-50 at 300 pixels."""
    folder = examples / "PyTorch/Detection/SSD"
    # The default of an argument builds a body with downloaded weights when the file is read.
    with mock.patch("torchvision.models.resnet.resnet50", side_effect=lambda weights: resnet50()):
        model = load(folder, "ssd.model")
        module = model.SSD300(backbone=model.ResNet("resnet50"))
    utils = load(folder, "ssd.utils")
    boxes = utils.dboxes300_coco()
    criterion = model.Loss(boxes)
    module.criterion = criterion
    truth = boxes(order="xywh").T[None]

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        images, _, labels = batch
        # Where the boxes are costs the same everywhere: on the default boxes themselves.
        return criterion(*module(images), truth.expand(len(images), -1, -1), labels), None

    weights = [p for p in module.parameters() if p.requires_grad]
    return Peer(module, torch.optim.SGD(weights, lr=2.6e-4, momentum=0.9, weight_decay=5e-4), loss)


def gnmt(examples: Path, config: Any) -> Peer:
    """PyTorch/Translation/GNMT."""
    folder = examples / "PyTorch/Translation/GNMT"
    model = load(folder, "seq2seq.models.gnmt")
    smoothing = load(folder, "seq2seq.train.smoothing")
    module = model.GNMT(config.vocabulary, config.width, config.layers, config.dropout, batch_first=True)
    criterion = smoothing.LabelSmoothing(0, 0.1)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        # Its packing wants the longest sentence first.
        order = batch["lengths"].argsort(descending=True)
        lengths, labels = batch["lengths"][order], batch["labels"][order]
        scores = module(batch["source"][order], lengths, batch["target"][order])
        return criterion(scores.flatten(0, 1), labels.flatten()) / len(labels), None

    return Peer(module, torch.optim.Adam(module.parameters(), lr=2e-3), loss)


def transformer(examples: Path, config: Any) -> Peer:
    """PyTorch/Translation/Transformer, `transformer_wmt_en_de_big_t2t`."""
    stand_in("apex.normalization.fused_layer_norm", FusedLayerNorm=nn.LayerNorm)
    stand_in("strided_batched_gemm")
    folder = examples / "PyTorch/Translation/Transformer"
    models = load(folder, "fairseq.models")
    attention = load(folder, "fairseq.modules.multihead_attention")
    attention.StridedBmm1Func, attention.StridedBmm2Func = Scores, Mix
    arguments = argparse.Namespace(
        arch="transformer_wmt_en_de_big_t2t",
        share_all_embeddings=True,
        dropout=config.dropout,
        src_vocab_size=config.vocabulary,
        tgt_vocab_size=config.vocabulary,
        padding_idx=1,
        fuse_dropout_add=False,
        fuse_relu_dropout=False,
        fuse_layer_norm=True,
    )
    models.ARCH_CONFIG_REGISTRY[arguments.arch](arguments)
    module = models.build_model(arguments)
    criterion = load(folder, "fairseq.criterions")
    smooth = criterion.LabelSmoothedCrossEntropyCriterion(
        argparse.Namespace(label_smoothing=0.1, padding_idx=1, fuse_label_smoothing=False)
    )

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        source, label = batch["source"], batch["label"]
        lengths = torch.full((len(source),), source.shape[1])
        scores, _ = module(source, lengths, batch["target"])
        probabilities = scores.float().log_softmax(-1)
        return smooth(probabilities, label) / (label != 1).sum(), None

    optimizer = torch.optim.Adam(module.parameters(), lr=6e-4, betas=(0.9, 0.997), eps=1e-9)
    return Peer(module, optimizer, loss)


PEERS: dict[str, Callable[[Path, Any], Peer]] = {
    "transformer-xl-base": transformer_xl,
    "transformer-xl-large": transformer_xl,
    "ssd300-resnet50": ssd300,
    "gnmt-v2": gnmt,
    "transformer-big": transformer,
}
