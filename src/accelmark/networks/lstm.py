"""LSTM layers that run in any precision on any device, and their single steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LSTM(nn.LSTM):  # type: ignore[misc]  # torch is untyped to mypy here
    """One layer in one direction from a state of zeros: [rows, steps, inputs] to [rows, steps, width]."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_meta:
            return self._without_values(x)
        # oneDNN has no LSTM in half precision for processors without such instructions; torch's own has.
        mixed = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        if mixed and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            with torch.backends.mkldnn.flags(enabled=False):
                return super().forward(x)[0]
        return super().forward(x)[0]

    def _without_values(self, x: Tensor) -> Tensor:
        """The products of all steps at once, which is only as good where nothing has values.

        There torch would take each step in Python, thousands for a sentence.
        """
        gates = F.linear(x, self.weight_ih_l0, self.bias_ih_l0)
        hidden = gates[..., : self.hidden_size]
        gates = gates + F.linear(hidden, self.weight_hh_l0, self.bias_hh_l0)
        take, forget, new, give = gates.chunk(4, -1)
        cell = forget.sigmoid() * hidden + take.sigmoid() * new.tanh()
        return give.sigmoid() * cell.tanh()


def one_step(layer: LSTM, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """A layer's next state and cell, [rows, width], in products that export for any number of rows."""
    gates = F.linear(x, layer.weight_ih_l0, layer.bias_ih_l0)
    gates = gates + F.linear(hidden, layer.weight_hh_l0, layer.bias_hh_l0)
    take, forget, new, give = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + take.sigmoid() * new.tanh()
    return give.sigmoid() * cell.tanh(), cell


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """[rows, steps, width] with each row's steps in reverse, and its padding where it was."""
    place = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths[:, None] - 1 - place
    return x.gather(1, torch.where(mirrored >= 0, mirrored, place)[..., None].expand_as(x))
