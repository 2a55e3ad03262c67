"""Energy in joules, from the accelerator's own counter or from that of the CPU packages.

The two say different things: NVML's covers the whole board with its memory, RAPL's the CPU packages without
memory, fans or power supply. A meter's `name` goes into the Record, so that nobody takes one for the other.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from accelmark.errors import AccelmarkError
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.machine import ROOT, ask, load_nvml, read_int, read_text
from accelmark.measure.telemetry import Sampler


class SensorError(AccelmarkError):
    """A sensor that worked at first has stopped answering: the energy is not measured, the rest may be."""


class EnergyMeter(Protocol):
    """Cumulative energy. Only differences between two readings mean something."""

    name: str

    def read_j(self) -> float:
        """Joules since some instant in the past; raises `SensorError` if the sensor is gone."""

    def close(self) -> None:
        """End whatever the meter does in the background."""


class NvmlCounter:
    """The energy counter of the boards themselves (Volta and later)."""

    def __init__(self, nvml: Any, handles: Sequence[Any], name: str) -> None:
        self.name = name
        self._nvml = nvml
        self._handles = handles

    def read_j(self) -> float:
        """Joules of all boards together; NVML counts millijoules."""
        try:
            millijoules = sum(self._nvml.nvmlDeviceGetTotalEnergyConsumption(h) for h in self._handles)
        except self._nvml.NVMLError as error:
            raise SensorError(f"the GPU's energy counter stopped answering: {error}") from error
        return float(millijoules) / 1000

    def close(self) -> None:
        """Nothing runs in the background."""


class NvmlPower:
    """Power summed over time, for boards without an energy counter (before Volta).

    Between two samples power is taken to change evenly; what changes faster than `interval_s` is missed.
    """

    def __init__(
        self,
        nvml: Any,
        handles: Sequence[Any],
        name: str,
        clock: Clock = MONOTONIC,
        interval_s: float = 0.05,
    ) -> None:
        self.name = name
        self._nvml = nvml
        self._handles = handles
        self._clock = clock
        self._lock = threading.Lock()
        self._joules = 0.0
        self._last: tuple[float, float] | None = None
        self._sampler = Sampler(self._tick, interval_s)
        self._sampler.start()

    def _tick(self) -> None:
        # A sensor that is gone is reported to whoever reads next, not from a thread.
        with contextlib.suppress(SensorError):
            self.read_j()

    def read_j(self) -> float:
        """Joules since the meter was made."""
        with self._lock:
            try:
                watts = sum(self._nvml.nvmlDeviceGetPowerUsage(h) for h in self._handles) / 1000
            except self._nvml.NVMLError as error:
                raise SensorError(f"the GPU's power sensor stopped answering: {error}") from error
            now = self._clock()
            if self._last is not None:
                then, before = self._last
                self._joules += (now - then) * (before + watts) / 2
            self._last = (now, watts)
            return self._joules

    def close(self) -> None:
        """End the sampling."""
        self._sampler.stop()


class Rapl:
    """The energy counters of the CPU packages, Intel's and AMD's.

    A counter starts again from 0 after 65 to 260 kJ: minutes, on a large server. So it is read in the
    background as well, often enough that it cannot start again twice between two readings.
    """

    name = "RAPL, CPU packages"

    def __init__(self, zones: Sequence[Path], interval_s: float = 20.0) -> None:
        self._lock = threading.Lock()
        self._counters = [zone / "energy_uj" for zone in zones]
        self._ranges = [read_int(zone / "max_energy_range_uj") for zone in zones]
        self._last = [self._read(counter) for counter in self._counters]
        self._microjoules = 0
        self._sampler = Sampler(self._tick, interval_s)
        self._sampler.start()

    @staticmethod
    def _read(counter: Path) -> int:
        value = read_int(counter)
        if value is None:
            raise SensorError(f"the CPU's energy counter {counter} stopped answering")
        return value

    def _tick(self) -> None:
        # A sensor that is gone is reported to whoever reads next, not from a thread.
        with contextlib.suppress(SensorError):
            self.read_j()

    def read_j(self) -> float:
        """Joules of all packages together since the meter was made."""
        with self._lock:
            for position, counter in enumerate(self._counters):
                now = self._read(counter)
                used = now - self._last[position]
                if used < 0:  # it has started again from 0
                    whole = self._ranges[position]
                    if whole is None:
                        raise SensorError(f"the CPU's energy counter {counter} restarted at an unknown value")
                    used += whole
                self._microjoules += used
                self._last[position] = now
            return self._microjoules / 1e6

    def close(self) -> None:
        """End the readings in the background."""
        self._sampler.stop()


def _find_nvml(nvml: Any, devices: Sequence[int], clock: Clock) -> EnergyMeter | str:
    handles = []
    for device in devices:
        try:
            handles.append(nvml.nvmlDeviceGetHandleByIndex(device))
        except nvml.NVMLError as error:
            return f"GPU {device} does not answer: {error}"
    name = "NVML, board" if len(handles) == 1 else f"NVML, {len(handles)} boards"
    modes = [ask(nvml, nvml.nvmlDeviceGetMigMode, handle) for handle in handles]
    if any(mode is not None and mode[0] == nvml.NVML_DEVICE_MIG_ENABLE for mode in modes):
        name += " with all MIG instances"
    if all(ask(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, h) is not None for h in handles):
        return NvmlCounter(nvml, handles, name)
    if all(ask(nvml, nvml.nvmlDeviceGetPowerUsage, h) is not None for h in handles):
        return NvmlPower(nvml, handles, f"{name}, summed from power samples", clock)
    return "the GPU has no power sensor that its driver reads"


def _find_rapl(root: Path) -> EnergyMeter | str:
    folder = root / "sys/class/powercap"
    if not folder.exists():
        return f"no RAPL counter: {folder} is missing"
    # Domains inside a package (`intel-rapl:0:1`) are part of it; `intel-rapl-mmio` is the same package again;
    # `psys` is the whole platform. AMD's packages go by Intel's name here.
    listed = sorted(folder.glob("intel-rapl:[0-9]*"))
    zones = [zone for zone in listed if (read_text(zone / "name") or "").startswith("package")]
    zones = [zone for zone in zones if zone.name.count(":") == 1]
    if listed and not zones:
        return f"RAPL is listed in {folder} but hidden here: run outside the container"
    if not zones:
        return f"no RAPL counter: {folder} lists no CPU package"
    for zone in zones:
        try:
            (zone / "energy_uj").read_text()
        except PermissionError:
            return (
                "RAPL counter exists but is not readable: run as root or"
                f" `sudo chmod a+r {folder}/intel-rapl:*/energy_uj`"
            )
        except OSError as error:
            return f"RAPL counter exists but does not answer: {error}"
    return Rapl(zones)


def find(
    devices: Sequence[int] | None,
    *,
    nvml: Any = None,
    root: Path = ROOT,
    clock: Clock = MONOTONIC,
) -> EnergyMeter | str:
    """The meter for these accelerators, or why there is none, in words.

    `devices` are NVML indices; an empty list means that the CPU computes; `None` takes all NVIDIA boards,
    or the CPU packages of a machine without any. A board's meter is never replaced by the CPU's.
    """
    if devices is not None and not devices:
        return _find_rapl(root)
    nvml = load_nvml(nvml)
    if devices is not None:
        return nvml if isinstance(nvml, str) else _find_nvml(nvml, devices, clock)
    count = 0 if isinstance(nvml, str) else nvml.nvmlDeviceGetCount()
    if count:
        return _find_nvml(nvml, range(count), clock)
    rapl = _find_rapl(root)
    return f"no NVIDIA GPU and {rapl}" if isinstance(rapl, str) else rapl


def idle_power_w(
    meter: EnergyMeter, clock: Clock, sleep: Callable[[float], None], seconds: float = 2.0
) -> float | None:
    """Mean watts while this process does nothing for a while; `None` if the counter did not move."""
    joules, start = meter.read_j(), clock()
    sleep(seconds)
    joules, elapsed = meter.read_j() - joules, clock() - start
    return joules / elapsed if joules > 0 else None
