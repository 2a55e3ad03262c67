"""The other side of a comparison, and how the files of a clone are imported from where they lie."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn


def unchanged(batch: Any) -> Any:
    """A batch of ours for a side that takes it as it is."""
    return batch


class Peer(NamedTuple):
    """A module, its optimiser, and the loss of one of its batches with the state of a recurrent network.

    `convert` brings a batch of ours to its layout, once and before anything is timed.
    """

    module: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Any, Any], tuple[Tensor, Any]]
    convert: Callable[[Any], Any] = unchanged


#: Folders from which modules were loaded: examples call theirs alike, as `common` and `models`.
ROOTS: set[Path] = set()


def stand_in(name: str, **members: Any) -> None:
    """Let a module that is not installed be imported, with what is needed of it."""
    module = sys.modules.setdefault(name, types.ModuleType(name))
    for key, value in members.items():
        setattr(module, key, value)
    parent, _, last = name.rpartition(".")
    if parent:
        # As importing does, for those who write its whole name.
        stand_in(parent, **{last: module})


def load(folder: Path, module: str) -> Any:
    """A module of a clone; each example is a root of its own, and those of other roots are forgotten."""
    stand_in("dllogger")
    folder = folder.resolve()
    if not folder.is_dir():
        raise SystemExit(f"{folder} does not exist: the clone is of another version or incomplete")
    for other in ROOTS - {folder}:
        for name in [name for name, loaded in sys.modules.items() if lies_in(loaded, other)]:
            del sys.modules[name]
    ROOTS.add(folder)
    # On a copy of the path, because some examples append to it.
    with mock.patch.object(sys, "path", [str(folder), *sys.path]):
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise SystemExit(f"{module} of {folder} cannot be imported: {error}") from None


def lies_in(module: types.ModuleType, folder: Path) -> bool:
    """Whether a module was loaded from a folder."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return False
    places = [spec.origin or "", *(spec.submodule_search_locations or ())]
    return any(Path(place).is_relative_to(folder) for place in places)
