"""PyTorch: its devices behind the measuring interface, its precisions, its compiler, its ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from accelmark.errors import UnsupportedError
from accelmark.measure.machine import nvidia_gpus

GIB = 2**30
#: Accelerators in order of preference; ROCm calls itself `cuda` in PyTorch.
KINDS = ("cuda", "rocm", "xpu", "mps", "cpu")


class TorchDevice:
    """One accelerator as the measuring loop sees it."""

    def __init__(self, kind: str, index: int = 0) -> None:
        self.kind = kind
        self.torch_device = torch.device(
            {"rocm": "cuda"}.get(kind, kind), index if kind not in ("cpu", "mps") else None
        )
        if self.torch_device.type == "cuda":
            torch.cuda.set_device(self.torch_device)

    def synchronize(self) -> None:
        """Wait for the device; a CPU computes before it returns."""
        match self.torch_device.type:
            case "cuda":
                torch.cuda.synchronize(self.torch_device)
            case "xpu":
                torch.xpu.synchronize(self.torch_device)
            case "mps":
                torch.mps.synchronize()

    def mark(self) -> object | None:
        """An event in the current stream, where the device times its own work."""
        if self.torch_device.type not in ("cuda", "xpu"):
            return None
        event: object = torch.Event(device=self.torch_device.type, enable_timing=True)
        event.record()  # type: ignore[attr-defined]
        return event

    def milliseconds(self, start: object, end: object) -> float:
        """Device time between two events."""
        assert isinstance(start, torch.Event)  # noqa: S101 - the interface is the same for all devices
        assert isinstance(end, torch.Event)  # noqa: S101
        return float(start.elapsed_time(end))

    def reset_peak_memory(self) -> None:
        """Begin a new peak of the caching allocator."""
        match self.torch_device.type:
            case "cuda":
                torch.cuda.reset_peak_memory_stats(self.torch_device)
            case "xpu":
                torch.xpu.reset_peak_memory_stats(self.torch_device)

    def peak_memory_gib(self) -> float | None:
        """Peak of what tensors took, by the caching allocator; MPS and the CPU do not count it."""
        match self.torch_device.type:
            case "cuda":
                return float(torch.cuda.max_memory_allocated(self.torch_device)) / GIB
            case "xpu":
                return float(torch.xpu.max_memory_allocated(self.torch_device)) / GIB
        return None


def available_kinds() -> list[str]:
    """Kinds of device that this PyTorch can use here, the preferred one first."""
    kinds = []
    if torch.cuda.is_available():
        kinds.append("rocm" if torch.version.hip else "cuda")
    if torch.xpu.is_available():
        kinds.append("xpu")
    if torch.backends.mps.is_available():
        kinds.append("mps")
    return [*kinds, "cpu"]


def nvml_index(device: TorchDevice) -> int | None:
    """NVML's number of this board, found by its UUID: CUDA's own order may be another. `None` elsewhere."""
    if device.kind != "cuda":
        return None
    uuid = str(torch.cuda.get_device_properties(device.torch_device).uuid)
    gpus, _ = nvidia_gpus()
    return next((gpu.index for gpu in gpus if gpu.uuid and uuid in gpu.uuid), None)


def set_precision(precision: str) -> None:
    """Make fp32 matrix products and convolutions exact fp32, or TF32 where that was asked for.

    Everything is set and nothing left at a default: PyTorch's own defaults let cuDNN use TF32.
    """
    wanted = "tf32" if precision == "tf32" else "ieee"
    # The older switch too, and first: `torch.export` reads it, and fails where it says something else.
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.fp32_precision = wanted
    torch.backends.cuda.matmul.fp32_precision = wanted
    torch.backends.cudnn.fp32_precision = wanted
    torch.backends.cudnn.conv.fp32_precision = wanted
    torch.backends.cudnn.rnn.fp32_precision = wanted
    # Convolution algorithms are chosen by timing them once per shape, in the warm-up.
    torch.backends.cudnn.benchmark = True


@contextlib.contextmanager
def autocast(precision: str, device_type: str) -> Iterator[None]:
    """Mixed precision for fp16 and bf16; nothing for fp32 and tf32."""
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    if dtype is None:
        yield
        return
    with torch.autocast(device_type, dtype=dtype):
        yield


def start_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Give SGD's momentum its first value, 0, from which the first step makes the same as without.

    PyTorch's fused SGD otherwise allocates it in the first step, and leaves it as the memory was if that
    step is left out, as the first steps of fp16 often are.
    """
    if not isinstance(optimizer, torch.optim.SGD):
        return
    for group in optimizer.param_groups:
        if group["momentum"] and not group["dampening"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def compile_module(module: nn.Module, engine: str) -> nn.Module:
    """The module as the engine runs it."""
    if engine == "compile":
        compiled = torch.compile(module)
        assert isinstance(compiled, nn.Module)  # noqa: S101 - torch.compile of a module is one
        return compiled
    if engine != "eager":
        raise UnsupportedError(f"engine {engine} does not train; use eager or compile")
    return module


class TorchGroup:
    """The ranks of a `torchrun` launch.

    What the loop exchanges goes through gloo over the hosts' network whatever carries the gradients, so no
    window waits for a device that only talks about itself.
    """

    def __init__(self, device: TorchDevice, shared: bool = False) -> None:
        """`shared`: all ranks run on one device, over which NCCL does not talk."""
        backend = "nccl" if device.torch_device.type == "cuda" and not shared else "gloo"
        dist.init_process_group(backend, device_id=device.torch_device if backend == "nccl" else None)
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._talk = dist.new_group(backend="gloo")

    def barrier(self) -> None:
        """Wait for all ranks."""
        dist.barrier(group=self._talk)

    def exchange(self, values: tuple[float, ...]) -> list[tuple[float, ...]]:
        """Every rank's values as float64, in order of rank."""
        mine = torch.tensor(values, dtype=torch.float64)
        everyone = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(everyone, mine, group=self._talk)
        return [tuple(tensor.tolist()) for tensor in everyone]

    def close(self) -> None:
        """Leave the group; without it NCCL complains at exit."""
        dist.destroy_process_group()


def local_rank() -> int:
    """This process's rank on its host, as `torchrun` tells it; 0 outside of `torchrun`."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, as opposed to a defect.

    The CPU allocator, oneDNN and the C++ runtime have no exception class of their own for it.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        sign in text
        for sign in (
            "can't allocate memory",
            "not enough memory",
            "out of memory",
            "std::bad_alloc",
            "bad allocation",
            "could not create a memory object",
            "Cannot allocate memory",
        )
    )
