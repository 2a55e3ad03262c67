"""Trees of tuples, lists and dicts with tensors as leaves: what networks take and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def leaves(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors of a tree, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from leaves(value)


def mapped(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A tree of the same form with every tensor changed."""
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(value, change) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(value, change) for value in tree)
    return tree


def placed(tree: Any, device: torch.device, memory_format: torch.memory_format) -> Any:
    """A tree on the device; images (4-D floats) in the module's memory layout."""

    def place(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 4 and tensor.is_floating_point():
            return tensor.to(device=device, memory_format=memory_format)
        return tensor.to(device)

    return mapped(tree, place)
