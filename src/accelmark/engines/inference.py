"""The one interface behind which every engine runs a network that is ready to answer.

An engine is given a module and what it will be asked, and makes of it whatever it runs: a compiled module, a
session, a plan. From there on its `streams` answer, each for one call at a time, and it says what it really
used.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accelmark.engines.available import missing
from accelmark.errors import UnsupportedError
from accelmark.record import Execution

#: The file of this package that has each engine's `prepare`.
FILES = {
    "eager": "torch_inference",
    "compile": "torch_inference",
    "onnxruntime": "onnx_runtime",
    "onnxruntime-tensorrt": "onnx_runtime",
    "openvino": "openvino",
    "tensorrt": "tensorrt",
}


@dataclass(frozen=True)
class Load:
    """What an engine makes ready.

    `module` is in evaluation mode, in single precision and on the CPU. `batches` are positional inputs for
    it, all of the same shapes: the shapes to prepare for and, for int8, the data to calibrate with. `threads`
    are the CPU threads of all `streams` together. Files go to `folder`, which the caller removes.
    """

    engine: str
    module: nn.Module
    batches: Sequence[tuple[Any, ...]]
    precision: str
    device: torch.device
    threads: int
    folder: Path
    streams: int = 1
    memory_format: torch.memory_format = torch.contiguous_format
    optimize_graph: bool = True

    @property
    def threads_of_stream(self) -> int:
        """The CPU threads of one stream."""
        return max(1, self.threads // self.streams)


class Prepared(ABC):
    """A network that an engine has made ready."""

    #: What the engine really uses.
    execution: Execution

    @abstractmethod
    def place(self, inputs: tuple[Any, ...]) -> Any:
        """Inputs from the host's memory to where the engine reads them."""

    @abstractmethod
    def stream(self) -> Callable[[Any], Any]:
        """A way for one call at a time; a call takes placed inputs and returns when its outputs are ready."""

    @abstractmethod
    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        """A call's outputs in the host's memory."""


def prepare(load: Load) -> Prepared:
    """Make a network ready; an `UnsupportedError` says why this engine cannot."""
    why = missing(load.engine)
    if why is not None:
        raise UnsupportedError(why)
    if load.precision == "int8" and not load.batches:
        raise UnsupportedError("int8 is calibrated with data and there is none: give a batch of inputs")
    engine = importlib.import_module(f"accelmark.engines.{FILES[load.engine]}")
    prepared: Prepared = engine.prepare(load)
    return prepared
