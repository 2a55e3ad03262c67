"""What is watched while windows are measured, whatever is measured: energy, memory, and what else ran."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from accelmark import conclude
from accelmark.engines.pytorch import nvml_index
from accelmark.job import Scalar, Settings
from accelmark.measure import energy
from accelmark.measure.clock import MONOTONIC
from accelmark.measure.loop import Group, Measurement
from accelmark.measure.memory import HostMemory
from accelmark.measure.others import OtherProcesses
from accelmark.measure.telemetry import Telemetry, since, throttled
from accelmark.record import Metrics, Quantity, Samples, Span, Status, Window
from accelmark.scenarios.outcome import Outcome

if TYPE_CHECKING:
    from accelmark.engines.pytorch import TorchDevice


class Watch:
    """Everything that is watched while one measurement runs, from `with` to its end.

    The ranks have a board each, or one together if it is `shared`.

    Made before whatever is measured, so that idle power is idle; `start` belongs to the first measured window
    and `stop` after the last one. Every rank makes one, and all ranks stop together.
    """

    def __init__(self, device: TorchDevice, group: Group, shared: bool = False) -> None:
        self.device, self.group = device, group
        index = nvml_index(device)
        self.meter = EnergyOfWindows(index, device, group, shared)
        self.others = OtherProcesses()
        self._origin = MONOTONIC()
        self.host = HostMemory()
        self.telemetry = Telemetry(index, origin=self._origin)
        self._entered = contextlib.ExitStack()
        self._joules: float | None = None
        self._joules_s: float | None = None
        self.other_share = 0.0
        self._begin = self._end = datetime.now(UTC)

    def __enter__(self) -> Watch:
        self.device.reset_peak_memory()
        self._entered.enter_context(self.host)
        self._entered.enter_context(self.telemetry)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def start(self) -> None:
        """The first measured window begins."""
        self.meter.start()
        self.others.start()
        self._begin = datetime.now(UTC)

    def stop(self) -> None:
        """The last measured window has ended."""
        self._end = datetime.now(UTC)
        self._joules, self._joules_s = self.meter.stop()
        self.other_share = other_share(self.others, self.group)

    def outcome(
        self,
        measurement: Measurement,
        unit: str,
        settings: Settings,
        *,
        reasons: tuple[str, ...] = (),
        conditions: dict[str, Scalar] | None = None,
        **more: Any,
    ) -> Outcome:
        """What one process says of its measurement; `more` are further metrics. Call it outside of `with`."""
        # From here on the telemetry counts its time as the windows do.
        sensors = since(self.telemetry.samples, measurement.origin - self._origin)
        throughput, status, said = conclude.judge(
            measurement.warm_up,
            measurement.windows,
            measurement.settled,
            unit,
            settings.target,
            self.other_share,
        )
        slowed = throttled(sensors)
        if slowed:
            said.append(f"heat or power held the clock down in {slowed:.0%} of the samples")
        device_gib, host_gib = memory(self.device, self.host, self.group)
        not_measured = {**self.meter.not_measured, **more.pop("not_measured", {})}
        if device_gib is None:
            not_measured["memory_peak_gib"] = (
                f"a {self.device.kind} device does not count its memory; see the host's"
            )
        joules, windows = self._joules, measurement.windows
        units = math.fsum(window.units for window in windows)
        metrics = Metrics(
            throughput=throughput,
            energy_j=joules,
            power_w=joules / self._joules_s if joules and self._joules_s else None,
            idle_power_w=self.meter.idle_w,
            energy_source=self.meter.name,
            power_basis=self.meter.basis,
            efficiency=Quantity(value=units / joules, unit=f"{unit}/W") if joules else None,
            memory_peak_gib=device_gib,
            host_memory_peak_gib=host_gib,
            rank_skew=skew(windows),
            other_cpu_share=self.other_share,
            step_s=sum(w.seconds for w in windows) / sum(w.steps for w in windows),
            first_step_s=measurement.first_step_s,
            warm_up_s=sum(w.seconds for w in measurement.warm_up),
            not_measured=not_measured,
            **more,
        )
        samples = Samples(
            windows=windows,
            warm_up=measurement.warm_up,
            step_ms=measurement.step_ms,
            spans=[Span(begin=self._begin, end=self._end)],
            telemetry=sensors,
        )
        return Outcome(status, [*said, *reasons], metrics, samples, conditions or {})


def two_steps(make: Callable[[], Callable[[], float]], device: TorchDevice, group: Group) -> Outcome:
    """Make a step and run it twice, to see whether a batch fits; the second is timed, and waited for."""
    device.reset_peak_memory()
    with HostMemory() as host:
        step = make()
        step()
        device.synchronize()
        start = MONOTONIC()
        units = step()
        device.synchronize()
        seconds = MONOTONIC() - start
    device_gib, host_gib = memory(device, host, group)
    window = Window(start_s=0, seconds=seconds, units=units * group.size, steps=1)
    metrics = Metrics(memory_peak_gib=device_gib, host_memory_peak_gib=host_gib, step_s=seconds)
    return Outcome(Status.OK, [], metrics, Samples(windows=[window]))


class EnergyOfWindows:
    """Energy over the measured windows, of this rank's board and summed over ranks; idle power before."""

    def __init__(self, index: int | None, device: TorchDevice, group: Group, shared: bool = False) -> None:
        self.group = group
        #: Whether rank 0 counts for all: the CPU packages, or one board that all ranks run on.
        self.shared = shared or device.kind == "cpu"
        self.name: str | None = None
        #: What the energy is of.
        self.basis: Literal["board", "package"] | None = None
        self.idle_w: float | None = None
        self.not_measured: dict[str, str] = {}
        self._meter: energy.EnergyMeter | None = None
        self._joules = self._start = 0.0
        found: energy.EnergyMeter | str
        if self.shared and group.rank > 0:
            return
        if device.kind == "cpu" or index is not None:
            found = energy.find([] if index is None else [index])
        else:
            found = f"no energy sensor is known for {device.kind} devices"
        if isinstance(found, str):
            self.not_measured["energy_j"] = found
            return
        self._meter, self.name = found, found.name
        self.basis = "package" if device.kind == "cpu" else "board"
        self.idle_w = energy.idle_power_w(found, MONOTONIC, time.sleep)

    def start(self) -> None:
        """The first measured window begins."""
        if self._meter is not None:
            self._joules, self._start = self._meter.read_j(), MONOTONIC()

    def stop(self) -> tuple[float | None, float | None]:
        """Joules over all ranks and seconds since `start`; `None` where a rank could not measure."""
        joules, seconds = math.nan, math.nan
        if self._meter is not None:
            try:
                joules = self._meter.read_j() - self._joules
                seconds = MONOTONIC() - self._start
            except energy.SensorError as error:
                self.not_measured["energy_j"] = str(error)
            self._meter.close()
        readings = self.group.exchange((joules, seconds, self.idle_w or math.nan))
        if self.shared:
            readings = readings[:1]
        total = math.fsum(reading[0] for reading in readings)
        idle = math.fsum(reading[2] for reading in readings)
        self.idle_w = idle if math.isfinite(idle) and idle > 0 else None
        if not math.isfinite(total) or total <= 0:
            if self._meter is not None:
                self.not_measured.setdefault("energy_j", "the energy counter did not move while measuring")
            return None, None
        return total, max(reading[1] for reading in readings)


def memory(device: TorchDevice, host: HostMemory, group: Group) -> tuple[float | None, float | None]:
    """The largest peak of any accelerator, and the hosts' peaks of all ranks together, in GiB."""
    mine = (device.peak_memory_gib() or math.nan, host.peak_gib() or math.nan)
    ranks = group.exchange(mine)
    largest = max(rank[0] for rank in ranks)
    together = math.fsum(rank[1] for rank in ranks)
    return (
        largest if math.isfinite(largest) and largest > 0 else None,
        together if math.isfinite(together) else None,
    )


def other_share(others: OtherProcesses, group: Group) -> float:
    """Share of the host's CPU time that went to none of the ranks; a little is the clocks."""
    busy, own, capacity = others.stop()
    ranks = group.exchange((own,))
    return max(0.0, busy - math.fsum(rank[0] for rank in ranks)) / capacity


def skew(windows: list[Window]) -> float | None:
    """Mean over windows of how much earlier the fastest rank was done, as a share of the slowest's time."""
    shares = [
        (max(w.rank_seconds) - min(w.rank_seconds)) / max(w.rank_seconds) for w in windows if w.rank_seconds
    ]
    return math.fsum(shares) / len(shares) if shares else None
