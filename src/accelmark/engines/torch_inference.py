"""PyTorch itself as an engine of inference: eager, and compiled by Inductor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from accelmark.engines.available import no_int8
from accelmark.engines.export import quiet
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.pytorch import autocast, set_precision
from accelmark.engines.tree import leaves, placed
from accelmark.errors import UnsupportedError
from accelmark.record import Execution


def prepare(load: Load) -> Prepared:
    """The module on the device, compiled where that was asked for."""
    set_precision("fp32" if load.precision == "int8" else load.precision)
    torch.set_num_threads(load.threads_of_stream)
    kernels = None
    if load.precision == "int8":
        module: Any = quantised(load)
        kernels = f"{_integer_modules(module)} modules in int8"
    else:
        module = copy.deepcopy(load.module).to(load.device, memory_format=load.memory_format)
    if load.engine == "compile":
        # Weights cannot change any more, so they are folded and laid out for the kernels beforehand.
        module = torch.compile(module, options={"freezing": True})
    return TorchPrepared(load, module, kernels)


class TorchPrepared(Prepared):
    """A module and the streams of its device."""

    def __init__(self, load: Load, module: Any, kernels: str | None) -> None:
        self.load, self.module = load, module
        self.execution = Execution(
            provider=f"pytorch, {load.device.type}",
            threads=load.threads_of_stream if load.device.type == "cpu" else None,
            optimisations="inductor, frozen weights" if load.engine == "compile" else "none",
            kernels=kernels,
        )

    def place(self, inputs: tuple[Any, ...]) -> Any:
        """Tensors on the device."""
        return placed(inputs, self.load.device, self.load.memory_format)

    def stream(self) -> Callable[[Any], Any]:
        """Calls in a queue of the device's own, where it has several."""
        place = self.load.device
        queue = torch.cuda.Stream(place) if place.type == "cuda" else None

        def call(inputs: Any) -> Any:
            with _answering(self.load):
                if queue is None:
                    outputs = self.module(*inputs)
                    _wait(place)
                    return outputs
                with torch.cuda.stream(queue):
                    outputs = self.module(*inputs)
                queue.synchronize()
                return outputs

        return call

    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        """Tensors on the CPU."""
        return [tensor.detach().cpu() for tensor in leaves(outputs)]


def _wait(place: torch.device) -> None:
    if place.type == "mps":
        torch.mps.synchronize()
    elif place.type == "xpu":
        torch.xpu.synchronize(place)


@contextmanager
def _answering(load: Load) -> Iterator[None]:
    with torch.inference_mode(), autocast(load.precision, load.device.type):
        yield


def quantised(load: Load) -> nn.Module:
    """The module with integer convolutions and linear layers: static quantisation, calibrated on the batches.

    The method is that of Jacob et al. (arXiv 1712.05877): each channel of the weights and each activation has
    a scale.
    """
    why = no_int8(load.engine, load.device.type)
    if why is not None:
        raise UnsupportedError(why)
    from torch.ao.quantization import QConfigMapping, get_default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    mapping = QConfigMapping().set_global(get_default_qconfig("x86"))
    try:
        with torch.no_grad(), quiet():
            observed = prepare_fx(copy.deepcopy(load.module), mapping, load.batches[0])
            for inputs in load.batches:
                observed(*inputs)
            module: nn.Module = convert_fx(observed)
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        # Tracing the module symbolically fails in as many ways as there is Python in a forward.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnsupportedError(
            f"PyTorch cannot trace this network to quantise it ({first[:200]}); use onnxruntime or openvino"
        ) from error
    if not _integer_modules(module):
        raise UnsupportedError("PyTorch quantised nothing of this network; use onnxruntime or openvino")
    return module


def _integer_modules(module: nn.Module) -> int:
    """How many modules hold their weights as integers."""
    return sum("quantized" in type(each).__module__ for each in module.modules() if _has_weight(each))


def _has_weight(module: nn.Module) -> bool:
    return callable(getattr(module, "weight", None))
