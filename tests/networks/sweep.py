"""What the tests of all networks share: a new file is tested by being there."""

from collections.abc import Callable
from typing import Any

import torch

from accelmark.networks import catalog

NETWORKS = {network.name: network for network in catalog.discover()}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny(network, seed: int = 0) -> tuple[Any, torch.nn.Module]:
    """The configuration and the module of a network's tiny size."""
    torch.manual_seed(seed)
    config = network.sizes["tiny"]
    return config, network.build(config)


def samples(network, at_least: int) -> int:
    """A batch of so many samples, or of as many as the network needs."""
    return max(at_least, network.least_batch_size)


def leaves(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree."""
    found: list[torch.Tensor] = []
    change(tree, found.append)
    return found


def change(tree: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """The tree with each tensor changed."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: change(value, function) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(change(value, function) for value in tree)
    return tree


def without_chance(module: torch.nn.Module) -> torch.nn.Module:
    """The module in training mode, with nothing left to chance and each sample computed by itself.

    No dropout and no dropped paths; batch normalisation by the statistics that it holds; all of a detector's
    regions where it would draw some.
    """
    for each in module.modules():
        name = type(each).__name__
        if "Dropout" in name or "StochasticDepth" in name:
            each.p = 0.0
        elif "BatchNorm" in name or "DropPath" in name or "SpecAugment" in name:
            each.eval()
        if hasattr(each, "fg_bg_sampler"):
            each.fg_bg_sampler.batch_size_per_image = 1_000_000
        for attribute in ("attention_dropout", "dropout_p"):
            if isinstance(getattr(each, attribute, None), float):
                setattr(each, attribute, 0.0)
    return module


def train(network, module: torch.nn.Module, optimizer, batches, state=None) -> tuple[list[torch.Tensor], Any]:
    """A step on each batch: the losses, and the state at the end."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss, state = network.loss(module, batch, state)
        loss.backward()
        if network.clip_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), network.clip_gradient_norm)
        optimizer.step()
        losses.append(loss.detach())
    return losses, state
