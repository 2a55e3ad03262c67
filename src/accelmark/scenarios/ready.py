"""A network of random weights made ready to answer, and what its answers are to be like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from accelmark.engines.pytorch import set_precision
from accelmark.engines.tree import leaves, mapped, placed
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.networks.base import Network

#: Different batches that calls rotate over, so that no cache answers.
BATCHES = 4
#: Answers that are compared, at least.
SAMPLES = 8
#: Bytes of a number.
_WIDTHS = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}


@dataclass(frozen=True)
class Ready:
    """A module in evaluation mode on the CPU, the batches that it is asked, and the right answers.

    `flops` are operations of a whole batch, or None where what counts them does not see all. `least_bytes`
    are those of weights, inputs and outputs.
    """

    module: nn.Module
    batches: list[tuple[Any, ...]]
    answers: list[list[torch.Tensor]]
    parameters: int
    flops: float | None
    least_bytes: float
    memory_format: torch.memory_format


def ready(network: Network, job: Job, device: torch.device) -> Ready:
    """Build a Job's network for inference, and answer its batches in eager fp32 on the device."""
    torch.manual_seed(job.seed)
    config = registry.configuration(network, job)
    built = network.build(config)
    module = network.inference(built, config)
    generator = torch.Generator().manual_seed(job.seed)
    size = job.batch_size or 1
    count = max(BATCHES, -(-SAMPLES // size))
    batches = same_shapes([tuple(network.inference_inputs(config, size, generator)) for _ in range(count)])
    set_precision("fp32")
    settle_normalisation(module, batches)
    memory_format = torch.channels_last if network.channels_last else torch.contiguous_format
    module.to(device, memory_format=memory_format)
    answers, flops = [], None
    with torch.inference_mode():
        for i, inputs in enumerate(batches):
            there = placed(inputs, device, memory_format)
            if i == 0 and not _has_recurrence(module):
                with FlopCounterMode(display=False) as counter:
                    outputs = module(*there)
                flops = float(counter.get_total_flops())
            else:
                outputs = module(*there)
            answers.append([tensor.cpu() for tensor in leaves(outputs)])
    module.to("cpu")
    width = _WIDTHS[job.precision or "fp32"]
    weights = sum(p.numel() for p in built.parameters())
    # Of an embedding table a call reads a few rows only.
    tables = sum(
        each.weight.numel() for each in built.modules() if isinstance(each, nn.Embedding | nn.EmbeddingBag)
    )
    moved = sum(tensor.numel() for tensor in (*leaves(batches[0]), *answers[0]))
    return Ready(
        module,
        batches,
        answers,
        weights,
        flops or None,
        float(width * (weights - tables) + 4 * moved),
        memory_format,
    )


def same_shapes(batches: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The batches, or where their shapes differ copies of the first: engines are prepared for one shape."""
    shapes = {tuple(tuple(tensor.shape) for tensor in leaves(batch)) for batch in batches}
    if len(shapes) == 1:
        return list(batches)
    return [mapped(batches[0], torch.Tensor.clone) for _ in batches]


def settle_normalisation(module: nn.Module, batches: Sequence[tuple[Any, ...]]) -> None:
    """Give batch normalisation the statistics of the batches, as training would have.

    Without, activations of an untrained network grow or fade from layer to layer, and no precision but fp32
    could hold them.
    """
    norms = [each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    norms = [each for each in norms if each.track_running_stats]
    if not norms:
        return
    before = [each.momentum for each in norms]
    for each in norms:
        each.reset_running_stats()
        each.momentum = None  # the mean over all batches
        each.train()
    with torch.no_grad():
        for inputs in batches:
            module(*inputs)
    for each, momentum in zip(norms, before, strict=True):
        each.momentum = momentum
        each.eval()


def _has_recurrence(module: nn.Module) -> bool:
    """Whether there is an operator of many steps whose products PyTorch's counter does not see."""
    return any(isinstance(each, nn.RNNBase) for each in module.modules())
