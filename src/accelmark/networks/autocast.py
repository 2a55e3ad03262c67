"""What must be computed in single precision also where a network runs in mixed."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor


def single_precision(x: Tensor) -> contextlib.AbstractContextManager[None]:
    """A context without autocast on the device of a tensor; those without values have none to leave."""
    if x.is_meta:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = torch.autocast(x.device.type, enabled=False)
    return context
