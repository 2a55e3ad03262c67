"""Recommenders of others: NVIDIA's PyTorch examples, and DLRM of its authors, from the user's clones.

Nothing of them is copied here. NCF's optimiser is apex's Adam on a GPU, torch's fused one here. NVIDIA's DLRM
runs with one table for all features and without its CUDA extension: its own products of pairs in PyTorch take
the place of the fused ones, and torch's SGD that of apex's. Its MLP's first layer has one column more, which
is filled up with zeros. The authors' DLRM is MLPerf's reference and runs as it is; its writer for TensorBoard
and MLPerf's logging, which do nothing here, are stood in for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from peer import Peer, load, stand_in
from torch import Tensor, nn

#: Numbers of a sample of Criteo's.
NUMBERS = 13


def ncf(examples: Path, config: Any) -> Peer:
    """PyTorch/Recommendation/NCF."""
    module = load(examples / "PyTorch/Recommendation/NCF", "neumf").NeuMF(
        config.users, config.films, config.factors, [*config.layers], dropout=config.dropout
    )
    criterion = nn.BCEWithLogitsLoss(reduction="none")

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        scores = module(batch["users"], batch["films"])
        return criterion(scores, batch["labels"].view(-1, 1)).float().view(-1).mean(0), None

    optimizer = torch.optim.Adam(module.parameters(), lr=0.0045, betas=(0.25, 0.5), fused=True)
    return Peer(module, optimizer, loss)


def nvidia_dlrm(examples: Path, config: Any) -> Peer:
    """PyTorch/Recommendation/DLRM, on one device."""
    folder = examples / "PyTorch/Recommendation/DLRM"
    load(folder, "dlrm")
    stand_in("absl.logging")
    stand_in("apex.mlp", MLP=nn.Module)
    stand_in("dlrm.cuda_ext", dotBasedInteract=None)
    stand_in("dlrm.cuda_ext.fused_gather_embedding", BuckleEmbeddingFusedGatherFunction=None)
    source = load(folder, "dlrm.model.distributed")
    # Its table of pairs goes to a GPU whatever the device is.
    with mock.patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        module = source.DistributedDlrm(
            num_numerical_features=NUMBERS,
            categorical_feature_sizes=config.table_rows,
            bottom_mlp_sizes=[*config.bottom, config.width],
            top_mlp_sizes=[*config.top, 1],
            embedding_type="joint",
            embedding_dim=config.width,
            interaction_op="dot",
            device="cpu",
        )
    criterion = nn.BCEWithLogitsLoss(reduction="mean")

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        return criterion(module(batch["numbers"], batch["rows"]).squeeze().float(), batch["labels"]), None

    return Peer(module, torch.optim.SGD(module.parameters(), lr=config.learning_rate), loss)


def authors_dlrm(examples: Path, config: Any) -> Peer:
    """dlrm_s_pytorch.py, as MLPerf calls it."""
    stand_in("torch.utils.tensorboard", SummaryWriter=None)
    stand_in("mlperf_logging.mllog", constants=None, get_mllogger=lambda: None)
    products = config.width + (len(config.rows) + 1) * len(config.rows) // 2
    module = load(examples, "dlrm_s_pytorch").DLRM_Net(
        config.width,
        np.array(config.table_rows),
        np.array([NUMBERS, *config.bottom, config.width]),
        np.array([products, *config.top, 1]),
        arch_interaction_op="dot",
        sigmoid_top=len(config.top),
        loss_function="bce",
    )

    def convert(batch: Any) -> Any:
        rows = batch["rows"].T.contiguous()
        # One row for each table and sample.
        offsets = torch.arange(rows.shape[1]).expand_as(rows).contiguous()
        return (batch["numbers"], offsets, rows), batch["labels"].view(-1, 1)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        inputs, labels = batch
        return module.loss_fn(module(*inputs), labels), None

    return Peer(module, torch.optim.SGD(module.parameters(), lr=config.learning_rate), loss, convert)


NVIDIA: dict[str, Callable[[Path, Any], Peer]] = {"ncf": ncf, "dlrm": nvidia_dlrm}
AUTHORS: dict[str, Callable[[Path, Any], Peer]] = {"dlrm": authors_dlrm}
