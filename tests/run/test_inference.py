"""Inference as a user asks for it: engines, parts of the machine, wrong requests, a meter's log."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from accelmark import published
from accelmark.record import Record
from accelmark.run import suite as suites
from accelmark.store import read
from tests.run.conftest import Run

ASKED = ("run", "resnet50-v1.5", "--size", "tiny", "--scenario", "inference", "--time-budget", "1s")


def test_engines_side_by_side(accelmark: Run, tmp_path: Path) -> None:
    out = tmp_path / "r"
    result = accelmark(
        *ASKED, "--engine", "eager,onnxruntime,openvino,tensorrt", "--batch-size", "2", "--out", str(out)
    )
    assert result.returncode == 0, result.stderr
    found = {record.job.engine: record for record in read([out]).records}
    assert found["tensorrt"].status == "unsupported"
    assert found["tensorrt"].reasons == ["tensorrt is not installed: pip install 'accelmark[tensorrt]'"]
    for name in ("eager", "onnxruntime", "openvino"):
        metrics, engine = found[name].metrics, found[name].software.engine
        assert engine is not None
        assert engine.startswith({"eager": "pytorch"}.get(name, name))
        assert metrics.agreement is not None
        assert metrics.agreement.top1 == 1
        assert metrics.latency_ms is not None
        assert metrics.latency_ms.mean is not None
        assert metrics.throughput is not None
        # One stream: what is not in a call is the loop's own.
        rate = 2 * 1000 / metrics.latency_ms.mean
        assert 0.8 * rate < metrics.throughput.value < 1.02 * rate
        assert metrics.load_s is not None
        assert metrics.first_step_s is not None
        assert metrics.flops_per_sample is not None
        file = out / f"{found[name].id}.calls.parquet"
        calls = pq.read_table(file).to_pydict()
        assert len(calls["ms"]) == metrics.latency_ms.n
        assert math.fsum(calls["ms"]) / len(calls["ms"]) == pytest.approx(metrics.latency_ms.mean)
        assert found[name].samples.calls is None


def test_two_parts_and_their_sum(accelmark: Run, tmp_path: Path) -> None:
    out = tmp_path / "r"
    result = accelmark(*ASKED, "--partitions", "2", "--engine", "onnxruntime", "--out", str(out))
    assert result.returncode == 0, result.stderr
    (record,) = read([out]).records
    assert (record.job.partition, record.job.parameters["instances"]) == ("1/2", 2)
    metrics = record.metrics
    assert [part.name for part in metrics.parts] == ["part 1 of 2", "part 2 of 2"]
    assert metrics.throughput is not None
    total = math.fsum(part.throughput.value for part in metrics.parts)
    assert metrics.throughput.value == pytest.approx(total, rel=0.05)
    calls = pq.read_table(out / f"{record.id}.calls.parquet").to_pydict()
    assert set(calls["stream"]) == {0, 1}
    for i, part in enumerate(metrics.parts):
        assert part.alone.value > 0
        assert part.latency_ms is not None
        assert part.latency_ms.n == calls["stream"].count(i)
    assert "part 2 of 2" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--engine", "tensorrtt"), 2, "did you mean tensorrt"),
        (("--precision", "int4"), 2, "unknown precision"),
        (("--batch-size", "under 7"), 2, "a bound of inference like 'under 7ms'"),
        (("--power-log", "nowhere.csv"), 4, "nowhere.csv does not exist"),
        (("--partitions", "2", "--streams", "2"), 2, "cannot be given together"),
    ],
)
def test_wrong_requests_are_one_sentence(
    accelmark: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = accelmark(*ASKED, *arguments, "--out", str(tmp_path / "r"))
    assert result.returncode == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--partitions", "64"), "needs 64 CPU cores, one for each part"),
        (("--scenario", "training", "--precision", "int8"), "int8 is for inference"),
        (("--scenario", "training", "--engine", "openvino"), "openvino runs inference and nothing else"),
    ],
)
def test_what_cannot_be_is_unsupported_with_its_reason(
    accelmark: Run, arguments: tuple[str, ...], reason: str
) -> None:
    result = accelmark(*ASKED, *arguments, "--dry-run", "--json")
    (job,) = json.loads(result.stdout)
    assert reason in job["unsupported"]


@pytest.mark.parametrize(
    ("option", "value"), [("--streams", "2"), ("--partitions", "2"), ("--batch-size", "under 7ms")]
)
def test_training_has_no_streams_parts_or_bounds(accelmark: Run, option: str, value: str) -> None:
    result = accelmark("run", "resnet50-v1.5", "--size", "tiny", option, value, "--dry-run")
    assert result.returncode == 2
    assert "is for inference; this is training" in result.stderr


def test_a_meters_log(accelmark: Run, tmp_path: Path) -> None:
    log, out = tmp_path / "meter.csv", tmp_path / "r"
    start = datetime.now()
    # Ten samples a second, because so short a measurement may lie between two of one a second.
    lines = [f"{(start + timedelta(seconds=i / 10)).isoformat()},{150}" for i in range(3000)]
    log.write_text("\n".join(["time,watts", *lines]))
    result = accelmark(*ASKED, "--power-log", str(log), "--out", str(out))
    assert result.returncode == 0, result.stderr
    (record,) = read([out]).records
    assert record.metrics.power_w == pytest.approx(150)
    assert record.metrics.power_basis == "system"
    assert record.metrics.throughput is not None
    assert record.metrics.efficiency is not None
    assert record.metrics.efficiency.value == pytest.approx(record.metrics.throughput.value / 150)
    log.write_text("\n".join(["time,watts", *lines[:1]]))
    result = accelmark(*ASKED, "--power-log", str(log), "--out", str(tmp_path / "other"))
    assert "meter.csv: " in result.stderr
    assert "the power log" in result.stderr


def test_the_suite_of_the_page_has_its_rows_with_their_parts() -> None:
    suite = suites.load("nvidia-inference")
    rows = [record for record in published.load("nvidia-2021-04") if record.job.scenario == "inference"]
    assert len(rows) == 106
    wanted = {_load(record) for record in rows}
    assert {
        (entry.networks[0], entry.precisions[0], entry.batch_sizes[0], entry.partition, entry.instances)
        for entry in suite.entries
    } == wanted
    assert {entry.scenario for entry in suite.entries} == {"inference"}


def _load(record: Record) -> tuple[object, ...]:
    job = record.job
    batch = job.batch_size or "default"
    return job.network, job.precision, batch, job.partition, job.parameters.get("instances")
