"""What a network declares. One file holds a whole network; everything else here reads this interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Config:
    """Base of a network's configuration; each network adds its numbers.

    `batch_size` is the default per accelerator. `parameters` is the count as published for this size, or
    `None` where nobody published one. `sequence_length` is in tokens, for networks that have one.
    """

    batch_size: int
    parameters: int | None = None
    sequence_length: int | None = None


@dataclass(frozen=True)
class QualityTarget:
    """What the published runs are trained to: the data set's metric and the value to reach."""

    metric: str
    target: float


class Network(ABC):
    """A network as published: its module, its batches, its training step, its unit.

    A subclass in a file of its own, decorated with `@register`. Networks know nothing of scenarios,
    devices or precisions: they build on the CPU (or under `torch.device("meta")`), and the scenario moves
    the module and batches to where they run.
    """

    #: Canonical name, as on the command line.
    name: ClassVar[str]
    title: ClassVar[str]
    domain: ClassVar[str]
    task: ClassVar[str]
    #: What throughput counts, plural: images, tokens.
    unit: ClassVar[str]
    dataset: ClassVar[str]
    quality: ClassVar[QualityTarget]
    paper: ClassVar[str]
    reference: ClassVar[str]
    #: Raised whenever a change makes new figures incomparable with old ones.
    version: ClassVar[int] = 1
    #: `full` is the published configuration, `tiny` the same code with small numbers; a network may have
    #: more, each with a name that says what it is.
    sizes: ClassVar[Mapping[str, Config]]

    @abstractmethod
    def build(self, config: Any) -> nn.Module:
        """A freshly initialised module in training mode; weights come from torch's global generator."""

    @abstractmethod
    def batch(self, config: Any, batch_size: int, generator: torch.Generator) -> Any:
        """One synthetic batch on the CPU with the data set's shapes, lengths and label structure.

        A tree of tuples, lists and dicts with tensors as leaves. Everything random comes from `generator`.
        """

    @abstractmethod
    def units(self, batch: Any) -> int:
        """How many units the batch holds, counted from its shapes (never from values on a device)."""

    @abstractmethod
    def loss(self, module: nn.Module, batch: Any, state: Any) -> tuple[torch.Tensor, Any]:
        """The training loss (a scalar) of one batch, and the state for the next batch.

        `module` may be wrapped (DDP, `torch.compile`), so it must be called, not reached into. `state` is
        `None` at first; a network without recurrence over batches returns `None`. It is carried over as it
        is, so it must be detached.
        """

    @abstractmethod
    def optimizer(self, module: nn.Module, config: Any) -> torch.optim.Optimizer:
        """The published optimiser, at a constant learning rate at which the sample batch is learnt.

        `config.batch_size` is that of the Job.
        """

    @abstractmethod
    def inference_inputs(self, config: Any, batch_size: int, generator: torch.Generator) -> Sequence[Any]:
        """Positional arguments for `module(...)` in evaluation mode."""

    #: Largest norm to which gradients are clipped before each optimiser step; `None` does not clip.
    clip_gradient_norm: ClassVar[float | None] = None
    #: Smallest batch that trains: batch normalisation over single values needs two.
    least_batch_size: ClassVar[int] = 1
    #: Whether convolutions gain from the channels-last memory layout.
    channels_last: ClassVar[bool] = False
    #: Whether DDP must look for parameters that a step did not use.
    find_unused_parameters: ClassVar[bool] = False
