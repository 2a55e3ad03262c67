"""Each finding on a machine that is written down, and the whole on this one."""

# ruff: noqa: N802 - a fake NVML has NVML's names

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
import typer
from typer.testing import CliRunner

from accelmark.cli import doctor as command
from accelmark.errors import EXIT_MISSING_LIBRARY
from accelmark.measure import doctor
from accelmark.measure.doctor import Busy, Finding, Level
from accelmark.measure.machine import Gpu, Host
from accelmark.system import Accelerator, Cpu

CPU = "sys/devices/system/cpu"
HOST = Host(Cpu(name="Some CPU", cores=8, sockets=2, instructions=["avx2"]), 64.0, "Linux 6.1", "docker")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


class FakeNvml:
    """One board; what is set on it is what it answers, everything else it does not support."""

    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = pynvml.NVMLError_DriverNotLoaded
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN

    def __init__(self, **answers: object) -> None:
        self.answers = {"nvmlDeviceGetName": "NVIDIA Test", **answers}

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def __getattr__(self, name: str):
        def call(*arguments: object) -> object:
            if name not in self.answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return self.answers[name]

        return call


class NoNvml(FakeNvml):
    def nvmlInit(self) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


# --- what is here ------------------------------------------------------------------------------------------


def test_hardware_names_what_there_is() -> None:
    gpu = Gpu(index=0, name="NVIDIA Test", memory_gib=80, compute_capability="9.0", power_limit_w=700)
    what = "\n".join(finding.what for finding in doctor.hardware(HOST, [gpu], None))
    for words in (
        "Some CPU, 8 usable cores, 2 sockets, avx2",
        "64.0 GiB",
        "docker",
        "GPU 0: NVIDIA Test, 80 GiB",
        "9.0",
    ):
        assert words in what


def test_no_gpu_is_a_note_and_a_lost_one_a_warning() -> None:
    assert levels(doctor.hardware(HOST, [], "no driver"))[-1] is Level.NOTE
    assert levels(doctor.hardware(HOST, [Gpu(index=1, name="x")], "GPU 0 is lost"))[-1] is Level.WARNING


def test_libraries() -> None:
    versions = {"torch": "2.9.0", "torchvision": "0.24.0", "transformers": "5.0"}
    found = doctor.libraries(versions.get, torchrun=True)
    assert levels(found) == [Level.OK, Level.OK, Level.MISSING, Level.MISSING, Level.OK]
    assert found[2].fix == "pip install 'accelmark[pytorch]'"
    assert doctor.anything_missing(found)
    complete = doctor.libraries(lambda name: "1", torchrun=False)
    assert levels(complete) == [Level.OK] * 5 + [Level.NOTE]
    assert not doctor.anything_missing(complete)


def test_precisions_repeat_the_verdict() -> None:
    accelerator = Accelerator(name="Some CPU", kind="cpu")

    def verdict(precision: str, accelerator: Accelerator, cpu: Cpu) -> str | None:
        return None if precision == "fp32" else f"{precision} is emulated"

    found = doctor.precisions(accelerator, HOST.cpu, verdict)
    assert [finding.what.split(":")[0] for finding in found] == ["fp32", "tf32", "fp16", "bf16"]
    assert levels(found) == [Level.OK, Level.NOTE, Level.NOTE, Level.NOTE]


# --- other work --------------------------------------------------------------------------------------------


def test_load_is_held_against_the_number_of_cpus() -> None:
    assert levels(doctor.load(1.6, 8, [])) == [Level.OK]
    (finding,) = doctor.load(1.7, 8, [Busy(17, "compiler", 1.5)])
    assert finding.level is Level.WARNING
    assert "compiler (pid 17, 1.5 CPUs)" in finding.what


def test_quota_below_the_affinity() -> None:
    assert doctor.quota(None, 8) == doctor.quota(8, 8) == doctor.quota(9.5, 8) == []
    (finding,) = doctor.quota(2.5, 8)
    assert finding.level is Level.WARNING
    assert "2.5 CPUs" in finding.what
    assert "taskset -c 0-1 " in finding.fix


def test_steal_is_counted_between_two_readings() -> None:
    before = [100, 0, 50, 800, 0, 0, 0, 10]
    after = [140, 0, 60, 845, 0, 0, 0, 15]
    assert doctor.steal_share(before, after) == pytest.approx(5 / 100)
    assert doctor.steal_share(before, before) is None
    assert doctor.steal_share([], []) is None


def test_virtual_machine(tmp_path: Path) -> None:
    assert doctor.virtual(tmp_path, None) == []
    assert levels(doctor.virtual(tmp_path, 0.02)) == [Level.WARNING]
    write(tmp_path, {"proc/cpuinfo": "flags : fpu hypervisor avx\n"})
    assert levels(doctor.virtual(tmp_path, 0.01)) == [Level.NOTE]


def test_other_processes_on_the_gpu() -> None:
    gpus = [Gpu(index=0, name="NVIDIA Test")]
    nvml = FakeNvml(
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=7), SimpleNamespace(pid=8)],
        nvmlDeviceGetGraphicsRunningProcesses=[SimpleNamespace(pid=9)],
    )
    computing, drawing = doctor.gpu_processes(nvml, gpus, [8])
    assert computing.level is Level.WARNING
    assert "(pid 7)" in computing.what
    assert drawing.level is Level.NOTE
    assert doctor.gpu_processes(FakeNvml(), gpus, []) == []


# --- clocks ------------------------------------------------------------------------------------------------


def test_governor(tmp_path: Path) -> None:
    assert levels(doctor.cpu_clock(tmp_path)) == [Level.NOTE]
    write(tmp_path, {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n"})
    assert levels(doctor.cpu_clock(tmp_path)) == [Level.OK]
    write(tmp_path, {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n"})
    (finding,) = doctor.cpu_clock(tmp_path)
    assert finding.level is Level.WARNING
    assert "performance, powersave" in finding.what
    assert finding.fix == "sudo cpupower frequency-set -g performance"


@pytest.mark.parametrize(
    ("file", "on", "off", "fix"),
    [
        ("intel_pstate/no_turbo", "0", "1", "echo 1 |"),
        ("cpufreq/boost", "1", "0", "echo 0 |"),
        ("smt/active", "1", "0", "echo off |"),
        ("cpu3/thermal_throttle/core_throttle_count", "12", "0", "fans"),
    ],
)
def test_turbo_smt_and_heat(tmp_path: Path, file: str, on: str, off: str, fix: str) -> None:
    governor = {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance"}
    assert len(doctor.cpu_clock(write(tmp_path, {**governor, f"{CPU}/{file}": off}))) == 1
    _, finding = doctor.cpu_clock(write(tmp_path, {f"{CPU}/{file}": on}))
    assert finding.level is Level.NOTE
    assert fix in finding.fix


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        ({"persistence": False}, Level.WARNING, "persistence mode is off"),
        ({"power_limit_w": 300, "power_default_w": 400}, Level.WARNING, "300 W, below the usual 400 W"),
        ({"ecc": False}, Level.NOTE, "ECC is off"),
        ({"mig": True, "partitions": ("MIG 1g.10gb",)}, Level.NOTE, "MIG is on (MIG 1g.10gb)"),
    ],
)
def test_settings_of_a_gpu(facts: dict[str, object], level: Level, words: str) -> None:
    (finding,) = doctor.gpu_clock(FakeNvml(), [Gpu(index=2, name="NVIDIA Test", **facts)])
    assert finding.level is level
    assert finding.what.startswith("GPU 2: ")
    assert words in finding.what


def test_a_gpu_as_it_should_be_gives_no_finding() -> None:
    gpu = Gpu(
        index=0, name="NVIDIA Test", persistence=True, power_limit_w=400, power_default_w=400, mig=False
    )
    nvml = FakeNvml(
        nvmlDeviceGetCurrentClocksThrottleReasons=pynvml.nvmlClocksThrottleReasonGpuIdle,
        nvmlDeviceGetTemperature=40,
        nvmlDeviceGetTemperatureThreshold=92,
    )
    assert doctor.gpu_clock(nvml, [gpu]) == []


def test_a_gpu_that_is_held_down_or_hot() -> None:
    nvml = FakeNvml(
        nvmlDeviceGetCurrentClocksThrottleReasons=pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
        | pynvml.nvmlClocksThrottleReasonGpuIdle,
        nvmlDeviceGetTemperature=88,
        nvmlDeviceGetTemperatureThreshold=92,
    )
    held, hot = doctor.gpu_clock(nvml, [Gpu(index=0, name="NVIDIA Test")])
    assert held.level is hot.level is Level.WARNING
    assert held.what == "GPU 0: the clock is held down now: thermal, hardware"
    assert hot.what == "GPU 0: it has 88 °C and slows down at 92 °C"


def test_battery() -> None:
    assert doctor.battery(None) == doctor.battery(True) == []
    assert levels(doctor.battery(False)) == [Level.WARNING]


# --- memory, disk, power -----------------------------------------------------------------------------------


def test_memory() -> None:
    assert levels(doctor.memory(64, 32, 0)) == [Level.OK]
    assert levels(doctor.memory(64, 6, 0)) == [Level.WARNING]
    assert levels(doctor.memory(4, 0.9, 0)) == [Level.WARNING]
    assert levels(doctor.memory(64, 32, 2)) == [Level.OK, Level.WARNING]
    assert levels(doctor.memory(None, 32, 0)) == [Level.OK]


def test_huge_pages(tmp_path: Path) -> None:
    file = "sys/kernel/mm/transparent_hugepage/enabled"
    assert doctor.huge_pages(tmp_path) == []
    assert levels(doctor.huge_pages(write(tmp_path, {file: "always [madvise] never"}))) == [Level.OK]
    assert levels(doctor.huge_pages(write(tmp_path, {file: "always madvise [never]"}))) == [Level.NOTE]


def test_disk() -> None:
    assert levels(doctor.disk(5.0, Path("/data"))) == [Level.OK]
    assert levels(doctor.disk(4.9, Path("/data"))) == [Level.WARNING]


def test_power() -> None:
    assert doctor.power("no sensor")[0].what == "energy cannot be measured: no sensor"
    meter = SimpleNamespace(name="NVML, board", read_j=lambda: 0.0, close=lambda: None)
    assert doctor.power(meter)[0].what == "energy is read from NVML, board"


# --- all of it ---------------------------------------------------------------------------------------------


def examine(root: Path, nvml: FakeNvml, **options: object) -> list[Finding]:
    return doctor.examine(
        lambda *arguments: None, root=root, nvml=nvml, sleep=lambda seconds: None, **options
    )


def test_examine_a_machine_with_a_gpu(tmp_path: Path) -> None:
    nvml = FakeNvml(
        nvmlDeviceGetCudaComputeCapability=(9, 0),
        nvmlDeviceGetTotalEnergyConsumption=1,
        nvmlDeviceGetPersistenceMode=0,
    )
    found = examine(tmp_path, nvml, folder=tmp_path / "results/that/do/not/exist/yet")
    what = [finding.what for finding in found]
    assert "GPU 0: NVIDIA Test, compute capability 9.0" in what
    assert "bf16: in hardware on NVIDIA Test" in what
    assert "energy is read from NVML, board" in what
    assert any(words.startswith("energy cannot be measured: no RAPL counter") for words in what)
    assert any("persistence mode is off" in words for words in what)
    assert any(words.endswith(f"free in {tmp_path}") for words in what)


def test_examine_a_machine_without_anything(tmp_path: Path) -> None:
    found = examine(tmp_path, NoNvml(), version=lambda name: None)
    assert [finding.level for finding in found if finding.topic == "libraries"] == [Level.MISSING] * 5
    assert doctor.anything_missing(found)
    assert list(doctor.by_topic(found))[:3] == ["hardware", "libraries", "precision"]


@pytest.fixture
def cli() -> typer.Typer:
    app = typer.Typer()
    app.command()(command.doctor)
    return app


def test_command_on_this_machine(cli: typer.Typer) -> None:
    result = CliRunner().invoke(cli, ["--json"])
    found = [Finding.model_validate(entry) for entry in json.loads(result.stdout)]
    missing = doctor.anything_missing(found)
    assert result.exit_code == (EXIT_MISSING_LIBRARY if missing else 0)
    assert {"hardware", "libraries", "precision", "other work", "power", "disk"} <= {
        finding.topic for finding in found
    }


def test_command_prints_a_line_for_each_finding(cli: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Finding(topic="libraries", level=Level.MISSING, what="torch is not installed", fix="install it"),
        Finding(topic="other work", level=Level.WARNING, what="busiest: \x1b[31mred"),
    ]
    monkeypatch.setattr("accelmark.measure.doctor.examine", lambda verdict: found)
    result = CliRunner().invoke(cli)
    header, first, second = result.stdout.splitlines()
    assert header.split() == ["topic", "level", "found", "what", "to", "do"]
    assert re.split("  +", first) == ["libraries", "missing", "torch is not installed", "install it"]
    assert "\x1b" not in second  # process names are anybody's
    assert result.exit_code == EXIT_MISSING_LIBRARY


def test_looking_at_the_machine_imports_no_framework() -> None:
    code = "import sys, accelmark.cli.doctor; print({'torch', 'pynvml', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
