"""Embedding tables that are too large for one accelerator: ranks hold shares and look up for each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.errors import UnsupportedError


def column_shares(width: int, ranks: int) -> list[range]:
    """Which columns of vectors each rank holds: as many as the others, or one more."""
    if ranks > width:
        raise UnsupportedError(f"vectors of {width} values cannot be divided over {ranks} accelerators")
    ends = [width * rank // ranks for rank in range(ranks + 1)]
    return [range(start, end) for start, end in pairwise(ends)]


class DividedEmbedding(nn.Module):  # type: ignore[misc]
    """`nn.Embedding(rows, width, sparse=True)`, of which each rank of the group holds some columns.

    Divided by columns, each rank has the same memory and the same work whatever is looked up, all shapes are
    known before (rows would be looked up as skewed as the data is), and each value travels once. Every rank
    must look up equally many rows at the same time. In mixed precision values travel in half precision.

    A rank's weight gets the gradient that DDP would give it: the mean of what all ranks' losses give. Whoever
    makes it gives it its first values.
    """

    def __init__(self, rows: int, width: int, rank: int, ranks: int) -> None:
        super().__init__()
        shares = column_shares(width, ranks)
        self.columns = shares[rank]
        self.widths = [len(share) for share in shares]
        self.weight = nn.Parameter(torch.empty(rows, len(self.columns)))

    @property
    def elsewhere(self) -> int:
        """Parameters that the other ranks hold."""
        return len(self.weight) * (sum(self.widths) - len(self.columns))

    # The compiler breaks its graph here: between collectives there is one look-up, and nothing to fuse.
    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch is untyped to mypy here
    def forward(self, rows: Tensor) -> Tensor:
        """The vectors of this rank's rows, of any shape, with all their columns."""
        ranks, device = len(self.widths), rows.device.type
        everyone = rows.new_empty(ranks * rows.numel())
        dist.all_gather(list(everyone.chunk(ranks)), rows.flatten())
        vectors = F.embedding(everyone, self.weight, sparse=True)
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else vectors.dtype
        sent = [rows.numel() * len(self.columns)] * ranks
        received = [rows.numel() * width for width in self.widths]
        parts = _Exchange.apply(vectors, dtype, sent, received).split(received)
        return torch.cat([part.view(*rows.shape, -1) for part in parts], -1)


class _Exchange(torch.autograd.Function):  # type: ignore[misc]
    """One's own columns for every rank, to every rank's columns for oneself; gradients go back."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, dtype: torch.dtype, sent: list[int], received: list[int]
    ) -> Tensor:
        ctx.shape, ctx.dtype, ctx.sent, ctx.received = vectors.shape, vectors.dtype, sent, received
        return _all_to_all(vectors.to(dtype).flatten(), sent, received)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        gradients = _all_to_all(gradient.contiguous(), ctx.received, ctx.sent).to(ctx.dtype)
        # Each rank's loss is the mean of its own batch, and all ranks' is the mean of those.
        return gradients.view(ctx.shape) / len(ctx.sent), None, None, None


def _all_to_all(values: Tensor, sent: list[int], received: list[int]) -> Tensor:
    arrived = values.new_empty(sum(received))
    dist.all_to_all_single(arrived, values, received, sent)
    return arrived


def divided(module: nn.Module) -> dict[str, DividedEmbedding]:
    """A module's divided tables by name."""
    return {name: each for name, each in module.named_modules() if isinstance(each, DividedEmbedding)}
