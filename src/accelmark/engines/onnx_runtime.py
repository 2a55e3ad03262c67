"""ONNX Runtime: its CPU, CUDA and TensorRT providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from accelmark.engines.export import Exported, calibration, quiet, to_onnx
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.tree import leaves
from accelmark.errors import UnsupportedError
from accelmark.record import Execution

#: The library's log level for errors only.
ERRORS = 3


def prepare(load: Load) -> Prepared:
    """A session over the exported network, quantised where that was asked for."""
    providers = _providers(load)
    exported = to_onnx(load)
    path = quantised(load, exported) if load.precision == "int8" else exported.path
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS
    options.intra_op_num_threads = load.threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    optimised = load.folder / "optimised.onnx"
    if load.precision == "int8":
        # What really runs is only in the graph that the library makes for this machine.
        options.optimized_model_filepath = str(optimised)
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    used = session.get_providers()[0]
    if used != _name(providers[0]):
        raise UnsupportedError(
            f"ONNX Runtime could not start its {_name(providers[0])}; it fell back to {used}"
        )
    kernels = integer_kernels(optimised) if load.precision == "int8" else None
    return Session(load, session, used, kernels)


def _name(provider: Any) -> str:
    return str(provider[0] if isinstance(provider, tuple) else provider)


def _providers(load: Load) -> list[Any]:
    """What runs the graph on this device, and the options that its precision needs."""
    kind = load.device.type
    if load.engine == "onnxruntime-tensorrt":
        wanted: Any = (
            "TensorrtExecutionProvider",
            {
                "device_id": load.device.index or 0,
                "trt_fp16_enable": load.precision == "fp16",
                "trt_int8_enable": load.precision == "int8",
                "trt_bf16_enable": load.precision == "bf16",
            },
        )
        if kind != "cuda":
            raise UnsupportedError("ONNX Runtime's TensorRT provider runs on NVIDIA GPUs")
    elif kind == "cuda":
        if load.precision in ("fp16", "bf16"):
            raise UnsupportedError(
                f"ONNX Runtime's CUDA provider computes as the graph says, in fp32 or tf32; for "
                f"{load.precision} use onnxruntime-tensorrt, tensorrt or compile"
            )
        options = {"device_id": load.device.index or 0, "use_tf32": int(load.precision == "tf32")}
        wanted = ("CUDAExecutionProvider", options)
    elif kind == "cpu":
        if load.precision in ("fp16", "bf16"):
            raise UnsupportedError(
                f"ONNX Runtime has no {load.precision} kernels for CPUs; use fp32, int8, or another engine"
            )
        wanted = "CPUExecutionProvider"
    else:
        raise UnsupportedError(f"ONNX Runtime runs here on CPUs and NVIDIA GPUs, not on {kind}")
    if _name(wanted) not in onnxruntime.get_available_providers():
        raise UnsupportedError(
            f"this ONNX Runtime has no {_name(wanted)}: pip install onnxruntime-gpu instead of onnxruntime"
        )
    return [wanted]


class Session(Prepared):
    """A session, which any number of streams may call at the same time."""

    def __init__(self, load: Load, session: Any, provider: str, kernels: str | None) -> None:
        self.load, self.session = load, session
        self.inputs = [each.name for each in session.get_inputs()]
        self.outputs = [each.name for each in session.get_outputs()]
        on_cpu = load.device.type == "cpu"
        self.execution = Execution(
            provider=provider,
            threads=load.threads if on_cpu else None,
            optimisations="all graph optimisations",
            kernels=kernels,
        )

    def place(self, inputs: tuple[Any, ...]) -> Any:
        """Arrays of the host, or values on the device."""
        arrays = [tensor.contiguous().numpy() for tensor in leaves(inputs)]
        if self.load.device.type == "cpu":
            return dict(zip(self.inputs, arrays, strict=True))
        index = self.load.device.index or 0
        return [onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", index) for array in arrays]

    def stream(self) -> Callable[[Any], Any]:
        """Calls of the session; on a GPU with inputs and outputs bound to its memory."""
        if self.load.device.type == "cpu":
            run = self.session.run
            return lambda placed: run(None, placed)
        index = self.load.device.index or 0

        def call(placed: Any) -> Any:
            binding = self.session.io_binding()
            for name, value in zip(self.inputs, placed, strict=True):
                binding.bind_ortvalue_input(name, value)
            for name in self.outputs:
                binding.bind_output(name, "cuda", index)
            self.session.run_with_iobinding(binding)
            return binding

        return call

    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        """Tensors of the host."""
        arrays = outputs if isinstance(outputs, list) else outputs.copy_outputs_to_cpu()
        return [torch.from_numpy(array) for array in arrays]


class _Calibration:
    """The batches, as ONNX Runtime's quantiser reads them."""

    def __init__(self, batches: list[dict[str, Any]]) -> None:
        self._left = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        """The next batch; None behind the last one."""
        return next(self._left, None)


def quantised(load: Load, exported: Exported) -> Path:
    """The file with weights and activations of convolutions and matrix products in 8 bits.

    Static quantisation in the QDQ form: what is measured on the batches are the ranges of activations, and
    each channel of the weights has a scale.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready, result = load.folder / "ready.onnx", load.folder / "int8.onnx"
    on_cpu = load.device.type == "cpu"
    with quiet():
        quant_pre_process(str(exported.path), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(ready),
            str(result),
            _Calibration(calibration(load, exported.inputs)),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            # A GPU's integer units multiply signed numbers. CPUs without VNNI add pairs of products in 16
            # bits, which 7 bits of weight do not overflow.
            activation_type=quantization.QuantType.QUInt8 if on_cpu else quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            reduce_range=on_cpu,
            extra_options={} if on_cpu else {"ActivationSymmetric": True},
        )
    return result


def integer_kernels(path: Path) -> str:
    """Which operators of an optimised graph compute in integers, counted; none is an `UnsupportedError`."""
    graph = onnx.load(path, load_external_data=False).graph
    integer = ("QLinear", "QGemm", "ConvInteger", "MatMulInteger", "DynamicQuantize", "QAttention", "QEmbed")
    counts = Counter(node.op_type for node in graph.node if node.op_type.startswith(integer))
    products = sum(count for name, count in counts.items() if not name.endswith(("Add", "Mul", "Concat")))
    if not products:
        raise UnsupportedError("ONNX Runtime's optimised graph has no integer kernel for this network")
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
