"""Which engines are installed, and in which version, found without importing them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from accelmark.job import TRAINING_ENGINES
from accelmark.measure.machine import installed_version


class Library(NamedTuple):
    """The modules that an engine imports, the distributions that may bring its version, and our extra."""

    modules: tuple[str, ...]
    distributions: tuple[str, ...]
    extra: str


_ONNX = ("onnx", "onnxscript")
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-openvino")
#: What is not PyTorch's.
LIBRARIES = {
    "onnxruntime": Library((*_ONNX, "onnxruntime"), _RUNTIMES, "onnxruntime"),
    "onnxruntime-tensorrt": Library((*_ONNX, "onnxruntime"), _RUNTIMES, "onnxruntime"),
    "openvino": Library((*_ONNX, "openvino", "nncf"), ("openvino",), "openvino"),
    "tensorrt": Library((*_ONNX, "onnxruntime", "tensorrt"), ("tensorrt",), "tensorrt"),
}


def missing(engine: str) -> str | None:
    """What to install before an engine can run, or None."""
    library = LIBRARIES.get(engine)
    if library is None or all(find_spec(module) is not None for module in library.modules):
        return None
    return f"{engine} is not installed: pip install 'accelmark[{library.extra}]'"


def named(engine: str) -> str | None:
    """An engine's name and version, as a Record has them; `None` for PyTorch's own, whose is the framework's.

    The version is left out where no distribution of the library says one.
    """
    if engine in TRAINING_ENGINES:
        return None
    for distribution in LIBRARIES[engine].distributions:
        version = installed_version(distribution)
        if version is not None:
            return f"{distribution} {version}"
    return engine


def no_int8(engine: str, kind: str) -> str | None:
    """Why an engine has no integer kernels for networks on a kind of device, or None."""
    if engine == "compile":
        return (
            "compile has no int8 here: what PyTorch's compiler makes of a statically quantised network is "
            "not sound yet; use onnxruntime, openvino or eager"
        )
    if engine == "eager" and kind != "cpu":
        return "PyTorch's own integer kernels run on CPUs; on a GPU int8 needs tensorrt"
    return None


def native(kind: str) -> str:
    """The engine of inference that gets most out of a kind of device: of those installed, else `eager`."""
    preferred = {"cuda": ("tensorrt", "onnxruntime-tensorrt"), "cpu": ("openvino", "onnxruntime")}
    return next((engine for engine in preferred.get(kind, ()) if missing(engine) is None), "eager")
