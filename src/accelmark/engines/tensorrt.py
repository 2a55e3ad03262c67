"""TensorRT through its Python API (10 and later): a plan of the exported network for the GPU in use.

int8 is explicit: the graph holds the quantised weights and the ranges of activations, so what TensorRT
calibrates by itself, which it gave up in version 10.1, is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tensorrt as trt
import torch

from accelmark.engines.export import to_onnx
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.onnx_runtime import quantised
from accelmark.engines.tree import leaves
from accelmark.errors import UnsupportedError
from accelmark.record import Execution

_FLAGS = {"fp16": "FP16", "bf16": "BF16", "int8": "INT8"}
_TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "BOOL": torch.bool,
}


def prepare(load: Load) -> Prepared:
    """Build the plan; minutes for a large network, because kernels are chosen by timing them."""
    if load.device.type != "cuda":
        raise UnsupportedError("TensorRT runs on NVIDIA GPUs")
    exported = to_onnx(load)
    path = quantised(load, exported) if load.precision == "int8" else exported.path
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        raise UnsupportedError(f"TensorRT cannot read the network: {parser.get_error(0).desc()[:200]}")
    settings = builder.create_builder_config()
    settings.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    # Used where two of four neighbouring weights are zero, and nowhere else.
    settings.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS)
    settings.clear_flag(trt.BuilderFlag.TF32)
    if load.precision == "tf32":
        settings.set_flag(trt.BuilderFlag.TF32)
    if load.precision in _FLAGS:
        settings.set_flag(getattr(trt.BuilderFlag, _FLAGS[load.precision]))
    plan = builder.build_serialized_network(network, settings)
    if plan is None:
        raise UnsupportedError("TensorRT could not build a plan for this network; the log says where")
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    return Plan(load, engine)


class Plan(Prepared):
    """A plan and its contexts."""

    def __init__(self, load: Load, engine: Any) -> None:
        self.load, self.engine = load, engine
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.inputs = [n for n in names if engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]
        self.execution = Execution(
            provider="tensorrt",
            optimisations="kernels chosen by timing",
            kernels=integer_kernels(engine) if load.precision == "int8" else None,
        )

    def place(self, inputs: tuple[Any, ...]) -> Any:
        """Tensors on the GPU, in the types that the plan takes."""
        return [
            tensor.to(self.load.device, self._type(name)).contiguous()
            for name, tensor in zip(self.inputs, leaves(inputs), strict=True)
        ]

    def stream(self) -> Callable[[Any], Any]:
        """A context with a queue and outputs of its own."""
        context = self.engine.create_execution_context()
        queue = torch.cuda.Stream(self.load.device)
        outputs = {
            name: torch.empty(
                tuple(self.engine.get_tensor_shape(name)), dtype=self._type(name), device=self.load.device
            )
            for name in self.outputs
        }
        for name, tensor in outputs.items():
            context.set_tensor_address(name, tensor.data_ptr())

        def call(placed: Any) -> Any:
            for name, tensor in zip(self.inputs, placed, strict=True):
                context.set_tensor_address(name, tensor.data_ptr())
            if not context.execute_async_v3(queue.cuda_stream):
                raise RuntimeError("TensorRT did not take the call")
            queue.synchronize()
            return list(outputs.values())

        return call

    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        """Tensors on the CPU."""
        return [tensor.cpu() for tensor in outputs]

    def _type(self, name: str) -> torch.dtype:
        return _TYPES[self.engine.get_tensor_dtype(name).name]


def integer_kernels(engine: Any) -> str:
    """How many layers take 8-bit inputs, by the plan itself; none is an `UnsupportedError`."""
    inspector = engine.create_engine_inspector()
    layers = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))["Layers"]
    integer = [
        layer
        for layer in layers
        if isinstance(layer, dict)
        and any("Int8" in str(each.get("Format/Datatype")) for each in layer.get("Inputs", []))
    ]
    if not integer:
        raise UnsupportedError("TensorRT's plan has no integer kernel for this network")
    return f"{len(integer)} of {len(layers)} layers in int8"
