"""What a network declares. One file holds a whole network; everything else here reads this interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from accelmark.errors import UsageError, unknown

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Config:
    """Base of a network's configuration; each network adds its numbers.

    `batch_size` is the default per accelerator. `parameters` is the count as published for this size, or
    `None` where nobody published one. `sequence_length` is in tokens, for networks that have one; `task` is
    one of the network's `tasks`, if it has any.
    """

    batch_size: int
    parameters: int | None = None
    sequence_length: int | None = None
    task: str | None = None


#: Which rows of embedding tables a batch looks up: a few very often, as in the data sets, or all alike.
LOOKUPS = ("skewed", "uniform")

#: What else a user may choose for networks whose configuration has it, and what those are that have not.
CHOICES = {
    "embedding_rows": "embedding tables that --embedding-rows could end",
    "lookups": "look-ups that --lookups could change",
}


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
    #: What inference counts, of which a batch of n has n, where that is not the unit.
    inference_unit: ClassVar[str | None] = None
    dataset: ClassVar[str]
    quality: ClassVar[QualityTarget]
    paper: ClassVar[str]
    reference: ClassVar[str]
    #: What it is measured in.
    scenarios: ClassVar[tuple[str, ...]] = ("training", "inference")
    #: Raised whenever a change makes new figures incomparable with old ones.
    version: ClassVar[int] = 1
    #: What a network with several uses can do, with the sequence length that each has at full size; the first
    #: is what its sizes are configured for.
    tasks: ClassVar[Mapping[str, int | None]] = {}
    #: `full` is the published configuration, `tiny` the same code with small numbers; a network may have
    #: more, each with a name that says what it is.
    sizes: ClassVar[Mapping[str, Config]]

    @abstractmethod
    def build(self, config: Any) -> nn.Module:
        """A freshly initialised module in training mode; weights come from torch's global generator."""

    def build_share(self, config: Any, rank: int, ranks: int) -> nn.Module:
        """What one of several ranks holds, with the same initial values: all of it, or a network says what.

        All ranks train on batches of their own, and what all hold is averaged over them. Tables that are too
        large for that may be `networks.sharding.DividedEmbedding`s here. Their gradients cannot be clipped by
        a norm, and the optimiser must treat each value by itself: no rank knows the norm of the whole.
        """
        return self.build(config)

    @abstractmethod
    def batch(self, config: Any, batch_size: int, generator: torch.Generator) -> Any:
        """One synthetic batch on the CPU with the data set's shapes, lengths and label structure.

        A tree of tuples, lists and dicts with tensors as leaves. Everything random comes from `generator`.
        """

    def configure(
        self, size: str, task: str | None = None, sequence_length: int | None = None, **choices: Any
    ) -> Config:
        """A size's configuration, for a task and a sequence length other than its own where these are given.

        `choices` are of those in `CHOICES` that its configuration has. A `UsageError` says what there is
        instead of a size, a task, a length or a choice that there is not.
        """
        if size not in self.sizes:
            raise unknown(f"size of {self.name}", size, self.sizes)
        config = self.sizes[size]
        if task is not None and task != config.task:
            if task not in self.tasks:
                raise unknown(f"task of {self.name}", task, self.tasks)
            length = self.tasks[task] if size == "full" else config.sequence_length
            config = replace(config, task=task, sequence_length=length, parameters=None)
        if sequence_length is not None and sequence_length != config.sequence_length:
            if config.sequence_length is None:
                raise UsageError(f"{self.name} has no sequence length that could be chosen")
            config = replace(config, sequence_length=sequence_length)
        for name, value in choices.items():
            if not hasattr(config, name):
                raise UsageError(f"{self.name} has no {CHOICES[name]}")
            # A table that ends earlier has not the published parameters.
            config = replace(config, parameters=None, **{name: value})
        return config

    @abstractmethod
    def units(self, batch: Any) -> int:
        """How many units a batch on the CPU holds, without padding."""

    def padded_units(self, batch: Any) -> int:
        """How many units a batch on the CPU would hold if padding counted."""
        return self.units(batch)

    def steps(self, batch: Any) -> int | None:
        """How many steps a batch makes one after the other, each as costly as the others; `None` if none.

        For a network that steps in Python: the catalog counts two short batches and draws the line on.
        """
        return None

    def first_steps(self, batch: Any, steps: int) -> Any:
        """The beginning of a batch, of a network that has `steps`."""
        raise NotImplementedError

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
        """Positional arguments for `inference(module, config)(...)`."""

    def inference(self, module: nn.Module, config: Any) -> nn.Module:
        """What answers for the trained module, in evaluation mode: with decoding where that belongs to it.

        One module that exports (`torch.export`, ONNX) for any size of the dimensions that `dynamic_shapes`
        names.
        """
        return module.eval()

    def dynamic_shapes(self, config: Any) -> tuple[Any, ...]:
        """Which dimensions of each of the `inference_inputs` may be of any size, for `torch.export`."""
        import torch

        inputs = self.inference_inputs(
            config, max(2, self.least_batch_size), torch.Generator().manual_seed(0)
        )
        batch = torch.export.Dim("batch")
        return tuple({0: batch} for _ in inputs)

    #: Largest norm to which gradients are clipped before each optimiser step; `None` does not clip.
    clip_gradient_norm: ClassVar[float | None] = None
    #: Smallest batch that trains: batch normalisation over single values needs two.
    least_batch_size: ClassVar[int] = 1
    #: Whether convolutions gain from the channels-last memory layout.
    channels_last: ClassVar[bool] = False
    #: Whether DDP must look for parameters that a step did not use.
    find_unused_parameters: ClassVar[bool] = False
