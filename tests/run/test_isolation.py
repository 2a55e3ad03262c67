"""A worker may end in any way: its Record says how, the other Jobs are measured, nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from accelmark.run.request import PROGRESS
from tests.run.conftest import USER_NETWORKS, Run, command, records

#: A machine that others disturb may drift while a test measures; that is no fault of the isolation.
MEASURED = ("ok", "noisy", "not_stationary")


@pytest.mark.parametrize(
    ("network", "status", "reason"),
    [
        ("segfault", "crashed", "SIGSEGV"),
        ("killed", "crashed", "SIGKILL"),
        ("broken", "crashed", "ValueError: a defect in the network"),
        ("not-a-number", "diverged", "the loss is nan"),
        ("never-learns", "diverged", "did not fall"),
        ("greedy", "out_of_memory", ""),
    ],
)
def test_how_a_worker_ends_is_its_status(
    accelmark: Run, tmp_path: Path, network: str, status: str, reason: str
) -> None:
    result = accelmark(
        "run", str(USER_NETWORKS), "--network", f"{network},steady", "--time-budget", "2s", "--out", "r"
    )
    assert result.returncode == 1
    found = records(tmp_path / "r")
    assert found[network]["status"] == status
    assert reason in found[network]["reasons"][0]
    assert found["steady"]["status"] in MEASURED
    if network == "segfault":
        assert "in misbehave" in found[network]["log_tail"]
    if network == "broken":
        assert "a defect in the network" in found[network]["log_tail"]


def test_windows_before_a_crash_are_kept(accelmark: Run, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("run", str(USER_NETWORKS), "--network", "steady", "--time-budget", "60s", "--repeats", "1"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    worker = _worker_of(process.pid)
    progress = Path(worker.cmdline()[-1]) / PROGRESS
    deadline = time.monotonic() + 120
    while not progress.exists() or progress.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    worker.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    record = records(tmp_path / "results")["steady"]
    assert record["status"] == "crashed"
    assert record["reasons"] == ["the worker was ended by SIGKILL"]
    assert len(record["samples"]["windows"]) + len(record["samples"]["warm_up"]) >= 3
    assert process.returncode == 1


def test_a_hanging_worker_and_its_children_are_ended(
    accelmark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_file = tmp_path / "child"
    monkeypatch.setenv("TEST_CHILD_FILE", str(child_file))
    started = time.monotonic()
    result = accelmark(
        "run", str(USER_NETWORKS), "--network", "hanging", "--time-budget", "2s", "--timeout", "12s"
    )
    assert result.returncode == 1
    assert time.monotonic() - started < 90
    record = records(tmp_path / "results")["hanging"]
    assert record["status"] == "timed_out"
    assert "--timeout" in record["reasons"][0]
    for pid in map(int, child_file.read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_rank_that_crashes_ends_all_ranks(accelmark: Run, tmp_path: Path) -> None:
    result = accelmark(
        "run", str(USER_NETWORKS), "--network", "segfault", "--time-budget", "2s", "--accelerators", "2"
    )
    assert result.returncode == 1
    record = records(tmp_path / "results")["segfault"]
    assert record["status"] == "crashed"
    assert "SIGSEGV" in record["reasons"][0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished_and_resume_does_the_rest(
    accelmark: Run, tmp_path: Path, number: signal.Signals
) -> None:
    words = ["run", str(USER_NETWORKS), "--network", "steady,segfault", "--time-budget", "4s", "--seed", "1"]
    process = subprocess.Popen(
        command(*words), cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder = tmp_path / "results"
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    worker = _worker_of(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume" in err
    worker.wait(timeout=20)
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    finished = {
        path.name for path in folder.glob("*.json") if json.loads(path.read_text())["status"] in MEASURED
    }
    accelmark(*words, "--resume")
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert set(before) <= set(after)
    assert len(after) == 2
    assert all(before[name] == after[name] for name in finished)
    assert records(folder)["steady"]["status"] in MEASURED
    assert records(folder)["segfault"]["status"] == "crashed"


def test_workers_end_when_the_parent_is_killed(accelmark: Run, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("run", str(USER_NETWORKS), "--network", "steady", "--time-budget", "60s"),
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    worker = _worker_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    worker.wait(timeout=20)


def _worker_of(pid: int) -> psutil.Process:
    """The worker process below a running command, once it has torch's memory: it is past its start."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children(recursive=True):
            try:
                if "accelmark.run.worker" in child.cmdline() and child.memory_info().rss > 150 * 2**20:
                    return child
            except psutil.Error:
                continue
        time.sleep(0.1)
    raise AssertionError("no worker was started")
