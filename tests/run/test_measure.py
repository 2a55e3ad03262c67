"""Real workers, real torchrun, on networks whose speed is known: they sleep 20 ms in every step.

Bounds are on what the sleep allows at most and on half of it: a figure wrong by a factor of two fails, a slow
machine does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.conftest import USER_NETWORKS, Run, records

STEP_S = 0.020
BATCH = 4


def measure(accelmark: Run, tmp_path: Path, *words: str) -> dict:
    result = accelmark("run", str(USER_NETWORKS), "--network", "steady", "--out", "r", *words)
    assert result.returncode == 0, result.stderr
    return records(tmp_path / "r")["steady"]


def test_throughput_is_batch_over_step_time(accelmark: Run, tmp_path: Path) -> None:
    record = measure(accelmark, tmp_path, "--time-budget", "4s")
    throughput = record["metrics"]["throughput"]
    assert BATCH / STEP_S / 2 < throughput["value"] < BATCH / STEP_S
    assert throughput["unit"] == "rows/s"
    assert throughput["ci95"][0] <= throughput["value"] <= throughput["ci95"][1]
    windows = record["samples"]["windows"]
    assert throughput["n"] == len(windows) >= 3
    assert throughput["value"] == pytest.approx(
        sum(w["units"] for w in windows) / sum(w["seconds"] for w in windows)
    )
    assert all(w["units"] == w["steps"] * BATCH for w in windows)
    assert record["metrics"]["host_memory_peak_gib"] > 0.1
    assert record["metrics"]["loss_last"] < record["metrics"]["loss_first"]
    assert record["job"]["batch_size"] == BATCH
    assert record["command"].startswith("accelmark run")
    assert record["software"]["framework"].startswith("pytorch ")
    if "energy_j" not in record["metrics"]:
        assert record["metrics"]["not_measured"]["energy_j"]


def test_two_ranks_of_torchrun_sum_their_units(accelmark: Run, tmp_path: Path) -> None:
    result = accelmark(
        "run", str(USER_NETWORKS), "--network", "steady", "--out", "two", "--time-budget", "4s",
        "--accelerators", "1,2",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = [json.loads(path.read_text()) for path in (tmp_path / "two").glob("*.json")]
    record = next(r for r in found if r["job"]["accelerators"] == 2)
    # Both ranks sleep at the same time: twice the rows in the time of one.
    assert BATCH / STEP_S < record["metrics"]["throughput"]["value"] < 2 * BATCH / STEP_S
    windows = record["samples"]["windows"]
    assert all(w["units"] == 2 * w["steps"] * BATCH for w in windows)
    assert all(len(w["rank_seconds"]) == 2 and max(w["rank_seconds"]) == w["seconds"] for w in windows)
    assert 0 <= record["metrics"]["rank_skew"] < 0.5
    scaling = record["metrics"]["scaling"]
    assert scaling["basis"] == "processes on one CPU"
    assert 1 < scaling["efficiency"] < 2.5


def test_gradient_accumulation_counts_every_micro_batch(accelmark: Run, tmp_path: Path) -> None:
    record = measure(accelmark, tmp_path, "--time-budget", "4s", "--gradient-accumulation", "3")
    assert all(w["units"] == 3 * w["steps"] * BATCH for w in record["samples"]["windows"])
    assert BATCH / STEP_S / 2 < record["metrics"]["throughput"]["value"] < BATCH / STEP_S


def test_the_same_step_measured_twice_agrees_within_its_intervals(accelmark: Run, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        accelmark("run", str(USER_NETWORKS), "--network", "steady", "--time-budget", "15s", "--out", folder)
    first, second = (records(tmp_path / folder)["steady"] for folder in ("a", "b"))
    for record in (first, second):
        assert record["metrics"]["throughput"]["processes"] == 3
        assert {w["process"] for w in record["samples"]["windows"]} == {0, 1, 2}
        assert not any("one process" in reason for reason in record.get("reasons", []))
    (low_a, high_a), (low_b, high_b) = (r["metrics"]["throughput"]["ci95"] for r in (first, second))
    assert low_a <= high_b
    assert low_b <= high_a


def test_the_largest_batch_is_found_in_subprocesses(accelmark: Run, tmp_path: Path) -> None:
    result = accelmark(
        "run", str(USER_NETWORKS), "--network", "bounded", "--batch-size", "max", "--time-budget", "2s"
    )
    assert result.returncode == 0, result.stderr
    record = records(tmp_path / "results")["bounded"]
    assert 35 <= record["job"]["batch_size"] <= 37
    assert record["job"]["parameters"] == {"batch_size_rule": "max", "batch_size_bound": "memory"}
    curve = record["samples"]["batch_curve"]
    assert {point["status"] for point in curve} == {"ok", "out_of_memory"}
    assert (
        max(point["batch_size"] for point in curve if point["status"] == "ok") == record["job"]["batch_size"]
    )


def test_a_worker_leaves_memory_to_the_machine() -> None:
    """The limit that a worker sets makes a huge allocation an error that is told as out of memory."""
    code = (
        "from accelmark.run.worker import _limit_memory\n"
        "_limit_memory(1)\n"
        "import torch\n"
        "from accelmark.engines.pytorch import is_out_of_memory\n"
        "from accelmark.measure.machine import memory_available_gib\n"
        "try:\n"
        "    torch.empty(int(memory_available_gib() * 2**30), dtype=torch.uint8)\n"
        "except RuntimeError as error:\n"
        "    print(is_out_of_memory(error))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"
