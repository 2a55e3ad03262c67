"""Every engine that is installed here answers as PyTorch does, and int8 is computed in integers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from accelmark.engines import available
from accelmark.engines.inference import Load, prepare
from accelmark.engines.onnx_runtime import integer_kernels
from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import UnsupportedError
from accelmark.job import ENGINES, Job
from accelmark.networks import registry
from accelmark.scenarios.agreement import compare, disagreement
from accelmark.scenarios.inference import Answering
from accelmark.scenarios.ready import Ready, ready

CPU = TorchDevice("cpu")


def job(network: str, engine: str, precision: str, batch: int = 3) -> Job:
    return Job(
        network=network,
        scenario="inference",
        size="tiny",
        engine=engine,
        precision=precision,
        batch_size=batch,
        sequence_length=registry.catalog()[network].sizes["tiny"].sequence_length,
    )


def asked(network: str, batch: int = 3) -> Ready:
    return ready(registry.load(network), job(network, "eager", "fp32", batch), torch.device("cpu"))


@pytest.mark.parametrize("engine", ["compile", "onnxruntime", "openvino"])
@pytest.mark.parametrize("network", ["resnet50-v1.5", "bert-base"])
def test_it_answers_as_eager_fp32(network: str, engine: str, tmp_path: Path) -> None:
    ours = asked(network)
    answering = Answering(ours, job(network, engine, "fp32"), CPU, tmp_path)
    agreement = compare(answering.outputs(), ours.answers, "fp32")
    assert disagreement(agreement, "fp32") is None
    assert answering.first_call_s is not None
    assert answering.prepared.execution.threads is not None
    assert answering.prepared.execution.kernels is None


@pytest.mark.parametrize(
    ("network", "engine", "kernels"),
    [
        ("resnet50-v1.5", "eager", "modules in int8"),
        ("resnet50-v1.5", "onnxruntime", "QLinearConv"),
        ("resnet50-v1.5", "openvino", "Convolution"),
        ("bert-base", "onnxruntime", "QLinearMatMul"),
        ("bert-base", "openvino", "in int8"),
    ],
)
def test_int8_runs_in_integers(network: str, engine: str, kernels: str, tmp_path: Path) -> None:
    ours = asked(network)
    answering = Answering(ours, job(network, engine, "int8"), CPU, tmp_path)
    assert kernels in str(answering.prepared.execution.kernels)
    agreement = compare(answering.outputs(), ours.answers, "int8")
    assert agreement.relative_rms is not None
    assert 1e-4 < agreement.relative_rms < 0.6  # quantised, and not something else


def test_a_graph_without_integers_is_none_of_int8(tmp_path: Path) -> None:
    ours = asked("resnet50-v1.5")
    Answering(ours, job("resnet50-v1.5", "onnxruntime", "fp32"), CPU, tmp_path)
    with pytest.raises(UnsupportedError, match="no integer kernel"):
        integer_kernels(tmp_path / "network.onnx")


@pytest.mark.parametrize(
    ("network", "engine", "precision", "why"),
    [
        ("bert-base", "eager", "int8", "cannot trace"),
        ("resnet50-v1.5", "compile", "int8", "compile has no int8"),
        ("resnet50-v1.5", "onnxruntime", "bf16", "no bf16 kernels for CPUs"),
        ("resnet50-v1.5", "onnxruntime-tensorrt", "fp32", "runs on NVIDIA GPUs"),
        ("resnet50-v1.5", "openvino", "tf32", "has no tf32"),
    ],
)
def test_what_an_engine_cannot_is_said(
    network: str, engine: str, precision: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=why):
        Answering(asked(network), job(network, engine, precision), CPU, tmp_path)


def test_without_calibration_data_there_is_no_int8(tmp_path: Path) -> None:
    load = Load("openvino", torch.nn.Linear(2, 2), [], "int8", torch.device("cpu"), 1, tmp_path)
    with pytest.raises(UnsupportedError, match="there is none"):
        prepare(load)


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(available, "find_spec", lambda name: None)
    for engine in ENGINES[2:]:
        extra = available.LIBRARIES[engine].extra
        assert available.missing(engine) == f"{engine} is not installed: pip install 'accelmark[{extra}]'"
    assert available.missing("eager") is None
    assert available.native("cpu") == "eager"
    load = Load("openvino", torch.nn.Linear(2, 2), [()], "fp32", torch.device("cpu"), 1, tmp_path)
    with pytest.raises(UnsupportedError, match=r"pip install 'accelmark\[openvino\]'"):
        prepare(load)


def test_streams_share_the_threads(tmp_path: Path) -> None:
    load = Load("eager", torch.nn.Linear(2, 2), [()], "fp32", torch.device("cpu"), 8, tmp_path, streams=3)
    assert load.threads_of_stream == 2
    assert dataclasses.replace(load, streams=16).threads_of_stream == 1


def test_operations_and_bytes_are_counted_by_hand() -> None:
    ours = asked("resnet50-v1.5", batch=2)
    # Of training a network counts forward and twice as much backward, but for the first layer's inputs.
    trained = registry.catalog()["resnet50-v1.5"].sizes["tiny"].flops_per_sample
    assert ours.flops is not None
    assert 2.5 < trained / (ours.flops / 2) < 3
    images, scores = ours.batches[0][0].numel(), ours.answers[0][0].numel()
    assert ours.least_bytes == 4 * (ours.parameters + images + scores)
