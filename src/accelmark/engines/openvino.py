"""OpenVINO, on CPUs and Intel's GPUs; NNCF makes int8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import openvino.properties as props
import openvino.properties.hint as hints
import torch

from accelmark.engines.export import calibration, quiet, to_onnx
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.tree import leaves
from accelmark.errors import UnsupportedError
from accelmark.record import Execution

_DEVICES = {"cpu": "CPU", "xpu": "GPU"}
#: What is not quantised computes in this type; of int8 it is fp32, or OpenVINO takes bf16 where a CPU has it.
_TYPES = {
    "fp32": openvino.Type.f32,
    "fp16": openvino.Type.f16,
    "bf16": openvino.Type.bf16,
    "int8": openvino.Type.f32,
}
#: Operators whose time is in multiplying.
_PRODUCTS = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul", "Deconvolution")


def prepare(load: Load) -> Prepared:
    """The exported network compiled for the device, quantised where that was asked for."""
    device = _DEVICES.get(load.device.type)
    if device is None:
        raise UnsupportedError(f"OpenVINO runs on CPUs and Intel GPUs, not on {load.device.type}")
    if load.precision not in _TYPES:
        raise UnsupportedError(f"OpenVINO has no {load.precision}; use {', '.join(_TYPES)}")
    core = openvino.Core()
    if device not in {name.partition(".")[0] for name in core.available_devices}:
        raise UnsupportedError(f"OpenVINO finds no {device} here; it has {', '.join(core.available_devices)}")
    model = core.read_model(to_onnx(load).path)
    if load.precision == "int8":
        model = quantised(load, model)
    settings: dict[Any, Any] = {hints.inference_precision: _TYPES[load.precision]}
    settings[props.num_streams] = load.streams
    if device == "CPU":
        settings[props.inference_num_threads] = load.threads
    return Compiled(load, core.compile_model(model, device, settings))


class Compiled(Prepared):
    """A compiled model and its requests."""

    def __init__(self, load: Load, model: Any) -> None:
        self.load, self.model = load, model
        kernels = integer_kernels(model) if load.precision == "int8" else None
        on_cpu = load.device.type == "cpu"
        self.execution = Execution(
            provider=f"openvino {', '.join(model.get_property(props.execution_devices))}",
            threads=load.threads if on_cpu else None,
            optimisations="all graph optimisations",
            kernels=kernels,
        )

    def place(self, inputs: tuple[Any, ...]) -> Any:
        """Tensors that share the host's memory."""
        arrays = [np.ascontiguousarray(tensor.numpy()) for tensor in leaves(inputs)]
        return [openvino.Tensor(array, shared_memory=True) for array in arrays]

    def stream(self) -> Callable[[Any], Any]:
        """A request of its own."""
        request = self.model.create_infer_request()

        def call(placed: Any) -> Any:
            request.infer(placed, share_inputs=True, share_outputs=True)
            return request

        return call

    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        """Copies, because the next call of the request overwrites its outputs."""
        return [torch.from_numpy(np.array(tensor.data)) for tensor in outputs.output_tensors]


def quantised(load: Load, model: Any) -> Any:
    """The model with weights and activations in 8 bits, their ranges measured on the batches."""
    import nncf

    names = [each.get_any_name() for each in model.inputs]
    batches = calibration(load, names)
    kinds = {node.get_type_name() for node in model.get_ops()}
    attention = {"Softmax", "MatMul"} <= kinds and not any("Convolution" in kind for kind in kinds)
    with quiet():
        return nncf.quantize(
            model,
            nncf.Dataset(batches),
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(batches),
            # Attention's activations are wide on a few channels, which this scheme leaves room for.
            model_type=nncf.ModelType.TRANSFORMER if attention else None,
        )


def integer_kernels(model: Any) -> str:
    """How many of the products ran in 8 bits, from the graph that runs; none is an `UnsupportedError`."""
    counts: Counter[str] = Counter()
    products = 0
    for node in model.get_runtime_model().get_ops():
        about = node.get_rt_info()
        kind = about["layerType"].astype(str) if "layerType" in about else node.get_type_name()
        if kind not in _PRODUCTS:
            continue
        products += 1
        precision = about["runtimePrecision"].astype(str) if "runtimePrecision" in about else ""
        if precision in ("i8", "u8"):
            counts[kind] += 1
    if not counts:
        raise UnsupportedError("OpenVINO's compiled graph has no integer kernel for this network")
    integer = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    return f"{integer} in int8, of {products} products"
