"""What is here to be measured, and what would disturb a measurement: each finding with what to do about it.

Every check is a function from what was read to findings; `examine` reads the machine and calls them all.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from accelmark.job import PRECISIONS, Model
from accelmark.measure import energy
from accelmark.measure.machine import (
    GIB,
    ROOT,
    Gpu,
    Host,
    ask,
    cpu_quota,
    describe_host,
    installed_version,
    load_nvml,
    meminfo_bytes,
    memory_available_gib,
    nvidia_gpus,
    read_int,
    read_text,
)
from accelmark.measure.telemetry import SLOWDOWNS, throttle_words
from accelmark.system import Accelerator, Cpu

#: What measuring needs besides accelmark itself: the extra `pytorch`.
REQUIRED = ("torch", "torchvision", "torchaudio", "timm", "transformers")
#: Load of the machine, as a share of its CPUs, above which others take part in what is measured.
LOAD_SHARE = 0.2
#: Share of the time that a hypervisor may take away.
STEAL_SHARE = 0.01
#: Memory and disk below which a measurement may fail halfway.
MEMORY_SHARE, MEMORY_LEAST_GIB, DISK_LEAST_GIB = 0.1, 1.0, 5.0
#: Distance in degrees from where a GPU slows itself down.
TEMPERATURE_MARGIN_C = 10

#: Why a precision is not done in hardware by this accelerator; `None` if it is.
Verdict = Callable[[str, Accelerator, Cpu], str | None]


class Level(StrEnum):
    """How much a finding matters: `missing` prevents measuring, `warning` disturbs it."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    MISSING = "missing"


class Finding(Model):
    """One thing found. `fix` is a command or a sentence; empty if there is nothing to do."""

    topic: str
    level: Level
    what: str
    fix: str = ""


class Busy(NamedTuple):
    """A process and the CPUs' worth of time that it takes."""

    pid: int
    name: str
    cpus: float


# --- what is here ------------------------------------------------------------------------------------------


def hardware(host: Host, gpus: Sequence[Gpu], reason: str | None) -> list[Finding]:
    """The CPU, the memory, the system, and the NVIDIA GPUs or why there are none."""
    cpu = host.cpu
    parts = [cpu.name, f"{cpu.cores} usable cores" if cpu.cores else "cores unknown"]
    if cpu.sockets:
        parts.append(f"{cpu.sockets} socket{'s' if cpu.sockets > 1 else ''}")
    if cpu.instructions:
        parts.append(" ".join(cpu.instructions))
    found = [Finding(topic="hardware", level=Level.OK, what=", ".join(parts))]
    memory = f"{host.memory_gib:.1f} GiB memory" if host.memory_gib else "memory unknown"
    where = f"{host.os or 'system unknown'}{f', in a {host.container} container' if host.container else ''}"
    found.append(Finding(topic="hardware", level=Level.OK, what=f"{memory}, {where}"))
    for gpu in gpus:
        facts = [f"GPU {gpu.index}: {gpu.name}"]
        facts += [f"{gpu.memory_gib:.0f} GiB"] if gpu.memory_gib else []
        facts += [f"driver {gpu.driver}"] if gpu.driver else []
        facts += [f"compute capability {gpu.compute_capability}"] if gpu.compute_capability else []
        facts += [f"power limit {gpu.power_limit_w:.0f} W"] if gpu.power_limit_w else []
        found.append(Finding(topic="hardware", level=Level.OK, what=", ".join(facts)))
    if reason is not None:
        fix = "" if gpus else "Nothing to do without an NVIDIA GPU; in a container, start it with --gpus all."
        level = Level.WARNING if gpus else Level.NOTE
        found.append(Finding(topic="hardware", level=level, what=reason, fix=fix))
    return found


def libraries(version: Callable[[str], str | None], torchrun: bool) -> list[Finding]:
    """What measuring needs, by version; nothing is imported for it."""
    found = []
    for name in REQUIRED:
        installed = version(name)
        if installed is None:
            fix = "pip install 'accelmark[pytorch]'"
            found.append(
                Finding(topic="libraries", level=Level.MISSING, what=f"{name} is not installed", fix=fix)
            )
        else:
            found.append(Finding(topic="libraries", level=Level.OK, what=f"{name} {installed}"))
    if version("torch") is not None and not torchrun:
        found.append(
            Finding(
                topic="libraries",
                level=Level.NOTE,
                what="torchrun is not in the search path, which several accelerators need",
                fix="python -m torch.distributed.run does the same.",
            )
        )
    return found


def precisions(accelerator: Accelerator, cpu: Cpu, verdict: Verdict) -> list[Finding]:
    """Which precisions this accelerator computes in hardware and which it would only emulate."""
    found = []
    for precision in PRECISIONS:
        why = verdict(precision, accelerator, cpu)
        what = f"{precision}: in hardware on {accelerator.name}" if why is None else f"{precision}: {why}"
        found.append(Finding(topic="precision", level=Level.OK if why is None else Level.NOTE, what=what))
    return found


# --- what disturbs: other work -----------------------------------------------------------------------------


def load(average: float, cpus: int, busiest: Iterable[Busy]) -> list[Finding]:
    """Work of others. The load average is the machine's, so it is held against all of its CPUs."""
    if average <= LOAD_SHARE * cpus:
        return [Finding(topic="other work", level=Level.OK, what=f"load {average:.2f} on {cpus} CPUs")]
    names = ", ".join(f"{busy.name} (pid {busy.pid}, {busy.cpus:.1f} CPUs)" for busy in busiest)
    return [
        Finding(
            topic="other work",
            level=Level.WARNING,
            what=f"load {average:.2f} on {cpus} CPUs" + (f"; busiest: {names}" if names else ""),
            fix="Stop other work, or wait until it ends; the load average follows within a minute.",
        )
    ]


def quota(allowed: float | None, affinity: int | None) -> list[Finding]:
    """A control group that gives less time than there are CPUs stops threads in the middle of a step."""
    if allowed is None or affinity is None or allowed >= affinity:
        return []
    return [
        Finding(
            topic="other work",
            level=Level.WARNING,
            what=f"a quota allows {allowed:g} CPUs' time on {affinity} CPUs: threads beyond it are stopped",
            fix=f"taskset -c 0-{max(1, int(allowed)) - 1} accelmark …, or give the container whole CPUs"
            " (--cpuset-cpus).",
        )
    ]


def virtual(root: Path, steal: float | None) -> list[Finding]:
    """A virtual machine, and the share of the last second that its host took away."""
    found = []
    flags = (read_text(root / "proc/cpuinfo") or "").split()
    vendor = read_text(root / "sys/class/dmi/id/sys_vendor") or ""
    if "hypervisor" in flags or (root / "sys/hypervisor/type").exists() or vendor == "QEMU":
        found.append(
            Finding(
                topic="other work",
                level=Level.NOTE,
                what="this is a virtual machine: neighbours share caches, memory and power unseen",
                fix="Repeat at another time, or use a whole host.",
            )
        )
    if steal is not None and steal > STEAL_SHARE:
        found.append(
            Finding(
                topic="other work",
                level=Level.WARNING,
                what=f"the host took away {steal:.1%} of the CPU time of the last second (steal)",
                fix="Use a machine with dedicated CPUs.",
            )
        )
    return found


def gpu_processes(nvml: Any, gpus: Iterable[Gpu], own_pids: Iterable[int]) -> list[Finding]:
    """Other processes on the GPUs: those that compute disturb, those that draw do so a little."""
    found = []
    own = set(own_pids)
    for gpu in gpus:
        handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, gpu.index)
        for call, level, work in (
            (nvml.nvmlDeviceGetComputeRunningProcesses, Level.WARNING, "computing"),
            (nvml.nvmlDeviceGetGraphicsRunningProcesses, Level.NOTE, "drawing"),
        ):
            pids = sorted({process.pid for process in ask(nvml, call, handle) or []} - own)
            if pids:
                listed = ", ".join(map(str, pids))
                what = f"GPU {gpu.index}: other processes are {work} on it (pid {listed})"
                fix = "nvidia-smi shows them; wait until they end or stop them."
                found.append(Finding(topic="other work", level=level, what=what, fix=fix))
    return found


# --- what disturbs: clocks and heat ------------------------------------------------------------------------


def cpu_clock(root: Path) -> list[Finding]:
    """The governor of the CPU's clock, turbo, two threads on one core, and past overheating."""
    found = []
    folder = root / "sys/devices/system/cpu"
    governors = {read_text(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    if not governors:
        what = "the CPU's clock is not visible here (a virtual machine, or not Linux)"
        found.append(Finding(topic="clock", level=Level.NOTE, what=what))
    elif governors == {"performance"}:
        found.append(Finding(topic="clock", level=Level.OK, what="the CPU governor is performance"))
    else:
        names = ", ".join(sorted(str(governor) for governor in governors))
        found.append(
            Finding(
                topic="clock",
                level=Level.WARNING,
                what=f"the CPU governor is {names}: short measurements begin at a low clock",
                fix="sudo cpupower frequency-set -g performance",
            )
        )
    no_turbo, boost = read_int(folder / "intel_pstate/no_turbo"), read_int(folder / "cpufreq/boost")
    if no_turbo == 0 or boost == 1:
        off = "1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        if no_turbo is None:
            off = "0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        found.append(
            Finding(
                topic="clock",
                level=Level.NOTE,
                what="turbo is on: the clock depends on temperature and on how many cores work",
                fix=f"To compare versions rather than machines, switch it off: echo {off}",
            )
        )
    if read_int(folder / "smt/active") == 1:
        found.append(
            Finding(
                topic="clock",
                level=Level.NOTE,
                what="SMT is on: two threads share each core, which matrix products gain nothing from",
                fix="echo off | sudo tee /sys/devices/system/cpu/smt/control",
            )
        )
    throttles = sum(
        read_int(path) or 0 for path in folder.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    )
    if throttles:
        found.append(
            Finding(
                topic="clock",
                level=Level.NOTE,
                what=f"the CPU's cores have slowed down for heat {throttles} times since the machine started",
                fix="See that the fans run and the air can flow, if the number grows during a measurement.",
            )
        )
    return found


def gpu_clock(nvml: Any, gpus: Iterable[Gpu]) -> list[Finding]:
    """What holds a GPU below what its kind can do: settings, heat, power."""
    found = []

    def add(gpu: Gpu, level: Level, what: str, fix: str = "") -> None:
        found.append(Finding(topic="clock", level=level, what=f"GPU {gpu.index}: {what}", fix=fix))

    for gpu in gpus:
        if gpu.persistence is False:
            what = "persistence mode is off: the driver starts anew for each process"
            add(gpu, Level.WARNING, what, f"sudo nvidia-smi -i {gpu.index} -pm 1")
        limit, default = gpu.power_limit_w, gpu.power_default_w
        if limit is not None and default is not None and limit < default:
            what = f"the power limit is {limit:.0f} W, below the usual {default:.0f} W"
            add(gpu, Level.WARNING, what, f"sudo nvidia-smi -i {gpu.index} -pl {default:.0f}")
        if gpu.ecc is not None:
            add(gpu, Level.NOTE, f"ECC is {'on' if gpu.ecc else 'off'}: compare with results of the same")
        if gpu.mig:
            names = ", ".join(gpu.partitions) or "no instance"
            what = f"MIG is on ({names}): results are those of an instance, power is the whole board's"
            add(gpu, Level.NOTE, what, f"For the whole board: sudo nvidia-smi -i {gpu.index} -mig 0")
        handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, gpu.index)
        reasons = throttle_words(ask(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0)
        held = [word for word in reasons if word in SLOWDOWNS]
        if held:
            what = f"the clock is held down now: {', '.join(held)}"
            add(gpu, Level.WARNING, what, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER tells more.")
        celsius = ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        slowdown = ask(
            nvml, nvml.nvmlDeviceGetTemperatureThreshold, handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        )
        if celsius is not None and slowdown and celsius > slowdown - TEMPERATURE_MARGIN_C:
            what = f"it has {celsius} °C and slows down at {slowdown} °C"
            add(gpu, Level.WARNING, what, "Let it cool down, and see to the air flow.")
    return found


def battery(plugged: bool | None) -> list[Finding]:
    """A laptop on its battery lowers its clocks."""
    if plugged is not False:
        return []
    what, fix = "the machine runs on its battery, which lowers clocks", "Connect the power supply."
    return [Finding(topic="clock", level=Level.WARNING, what=what, fix=fix)]


# --- what disturbs: memory and disk ------------------------------------------------------------------------


def memory(total_gib: float | None, available_gib: float, swapped_gib: float) -> list[Finding]:
    """Too little free memory, and memory that was already moved to disk."""
    what = f"{available_gib:.1f} GiB of memory are free"
    least = max(MEMORY_LEAST_GIB, MEMORY_SHARE * (total_gib or 0.0))
    if available_gib < least:
        fix = "End programs that hold memory: beyond it the system swaps or ends the worker."
        found = [Finding(topic="memory", level=Level.WARNING, what=what, fix=fix)]
    else:
        found = [Finding(topic="memory", level=Level.OK, what=what)]
    if swapped_gib > 0.01 * (total_gib or 0.0):
        found.append(
            Finding(
                topic="memory",
                level=Level.WARNING,
                what=f"{swapped_gib:.1f} GiB are swapped out: reading them back takes time at random",
                fix="sudo swapoff -a && sudo swapon -a",
            )
        )
    return found


def huge_pages(root: Path) -> list[Finding]:
    """Transparent huge pages: their setting changes memory-bound results."""
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    if text is None or "[" not in text:
        return []
    mode = text.partition("[")[2].partition("]")[0]
    what = f"transparent huge pages: {mode}"
    if mode != "never":
        return [Finding(topic="memory", level=Level.OK, what=what)]
    fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    return [Finding(topic="memory", level=Level.NOTE, what=f"{what}; large tensors cost more", fix=fix)]


def disk(free_gib: float, folder: Path) -> list[Finding]:
    """Room for results, data and weights."""
    what = f"{free_gib:.1f} GiB of disk are free in {folder}"
    if free_gib >= DISK_LEAST_GIB:
        return [Finding(topic="disk", level=Level.OK, what=what)]
    fix = "Make room, or run in a folder on another disk."
    return [Finding(topic="disk", level=Level.WARNING, what=what, fix=fix)]


# --- power -------------------------------------------------------------------------------------------------


def power(meter: energy.EnergyMeter | str) -> list[Finding]:
    """The sensor that energy would be read from, or why there is none."""
    if isinstance(meter, str):
        what = f"energy cannot be measured: {meter}"
        return [Finding(topic="power", level=Level.NOTE, what=what)]
    return [Finding(topic="power", level=Level.OK, what=f"energy is read from {meter.name}")]


# --- all of it ---------------------------------------------------------------------------------------------


def _cpu_times(root: Path) -> list[int]:
    """Ticks since the start of the machine: user, nice, system, idle, iowait, irq, softirq, steal."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    return [int(field) for field in fields[1:9]]


def steal_share(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Share of the CPU time between two readings of /proc/stat that the hypervisor took away."""
    if len(before) < 8 or len(after) < 8:
        return None
    passed = sum(after) - sum(before)
    return (after[7] - before[7]) / passed if passed > 0 else None


def _watch(root: Path, sleep: Callable[[float], None]) -> tuple[list[Busy], float | None]:
    """One second of looking: the busiest other processes, and the time that was stolen."""
    processes = {process.pid: process for process in psutil.process_iter(["name"])}
    processes.pop(os.getpid(), None)
    for process in processes.values():
        _cpu_share(process)  # the first call only starts psutil's count
    before = _cpu_times(root)
    sleep(1.0)
    after = _cpu_times(root)
    busy = [
        Busy(pid, process.info["name"] or "unnamed", _cpu_share(process))
        for pid, process in processes.items()
    ]
    busy = sorted((one for one in busy if one.cpus >= 0.05), key=lambda one: -one.cpus)
    return busy[:3], steal_share(before, after)


def _cpu_share(process: psutil.Process) -> float:
    try:
        return process.cpu_percent() / 100
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0


def _swapped_gib(root: Path) -> float:
    fields = meminfo_bytes(root)
    if "SwapTotal" in fields:
        return (fields["SwapTotal"] - fields["SwapFree"]) / GIB
    return psutil.swap_memory().used / GIB


def _plugged() -> bool | None:
    # psutil lacks the function on systems where it cannot tell.
    state = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return state.power_plugged if state is not None else None


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: results may not have one yet."""
    return next(level for level in (folder.absolute(), *folder.absolute().parents) if level.exists())


def accelerators(host: Host, gpus: Sequence[Gpu]) -> list[Accelerator]:
    """Each kind of accelerator once; the CPU where there is no GPU."""
    kinds: Mapping[str, Gpu] = {gpu.name: gpu for gpu in gpus}
    return [
        Accelerator(name=name, kind="cuda", compute_capability=gpu.compute_capability)
        for name, gpu in kinds.items()
    ] or [Accelerator(name=host.cpu.name, kind="cpu")]


def examine(
    verdict: Verdict,
    *,
    root: Path = ROOT,
    nvml: Any = None,
    folder: Path = Path(),
    sleep: Callable[[float], None] = time.sleep,
    version: Callable[[str], str | None] = installed_version,
) -> list[Finding]:
    """All findings about this machine. It looks at it for a second.

    `verdict` says which precisions are emulated; it is the engines' knowledge, not that of measuring.
    """
    host = describe_host(root)
    gpus, reason = nvidia_gpus(nvml)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    torchrun = shutil.which("torchrun", path=path)
    found = hardware(host, gpus, reason) + libraries(version, torchrun is not None)
    for accelerator in accelerators(host, gpus):
        found += precisions(accelerator, host.cpu, verdict)

    average = psutil.getloadavg()[0]  # before looking, which is work too
    busiest, steal = _watch(root, sleep)
    cpus = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cpus
    found += load(average, cpus, busiest)
    found += quota(cpu_quota(root), affinity)
    found += virtual(root, steal)
    found += cpu_clock(root) + battery(_plugged())
    if gpus:
        nvml = load_nvml(nvml)
        found += gpu_processes(nvml, gpus, [os.getpid()]) + gpu_clock(nvml, gpus)
    available = memory_available_gib(root)
    found += memory(host.memory_gib, available, _swapped_gib(root)) + huge_pages(root)
    meters = [energy.find(None, nvml=nvml, root=root)]
    if gpus:  # the first is that of the boards
        meters.append(energy.find([], root=root))
    for meter in meters:
        found += power(meter)
        if not isinstance(meter, str):
            meter.close()
    folder = _existing(folder)
    found += disk(shutil.disk_usage(folder).free / GIB, folder)
    return found


def anything_missing(findings: Iterable[Finding]) -> bool:
    """Whether something that measuring needs is not here."""
    return any(finding.level is Level.MISSING for finding in findings)


def by_topic(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings in groups, topics in the order in which they first appear."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.topic, []).append(finding)
    return groups
