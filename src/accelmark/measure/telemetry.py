"""The accelerator's own sensors while it is measured: clocks, power, temperature, reasons for slowing down.

`Sampler`, the thread that does this once a second, also serves that of energy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.machine import ask, load_nvml
from accelmark.record import Sample

#: NVML's bits for what holds the clock down, in words.
THROTTLE_WORDS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal, software",
    0x040: "thermal, hardware",
    0x080: "power brake",
    0x100: "display clocks",
}
#: Those that make a result smaller than this board could give. An idle board and a clock that somebody
#: chose are as they should be.
SLOWDOWNS = frozenset(
    {"power cap", "hardware slowdown", "thermal, software", "thermal, hardware", "power brake"}
)


class Sampler:
    """A thread that calls a function at once, then every `interval_s`, until it is stopped."""

    def __init__(self, take: Callable[[], None], interval_s: float) -> None:
        self._take = take
        self._interval_s = interval_s
        self._stop = threading.Event()
        # A daemon, so that a sampler somebody forgot never keeps a process alive.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self._take()
        while not self._stop.wait(self._interval_s):
            self._take()

    def start(self) -> None:
        """Begin; once in the life of a sampler."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for a call that is under way. Stopping twice, or before the start, does nothing."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


def throttle_words(bits: int) -> list[str]:
    """NVML's reasons for the present clock, in words."""
    return [word for bit, word in THROTTLE_WORDS.items() if bits & bit]


class Telemetry:
    """Samples one NVIDIA board while the `with` block runs; elsewhere it does nothing and says why.

    `device` is the NVML index, `None` for a machine without one. Times count from `origin`, a reading of
    `clock`, so that they can be put beside windows that count from there too.
    """

    def __init__(
        self,
        device: int | None,
        clock: Clock = MONOTONIC,
        *,
        origin: float | None = None,
        nvml: Any = None,
        interval_s: float = 1.0,
    ) -> None:
        self.samples: list[Sample] = []
        self.reason: str | None = None
        self._clock = clock
        self._origin = clock() if origin is None else origin
        self._sampler = Sampler(self.take, interval_s)
        if device is None:
            self.reason = "only NVIDIA GPUs tell their clocks"
            return
        self._nvml = load_nvml(nvml)
        if isinstance(self._nvml, str):
            self.reason = self._nvml
            return
        try:
            self._handle = self._nvml.nvmlDeviceGetHandleByIndex(device)
        except self._nvml.NVMLError as error:
            self.reason = f"GPU {device} does not answer: {error}"

    def take(self) -> None:
        """One sample. A board that tells nothing any more leaves none."""
        nvml, handle = self._nvml, self._handle
        power = ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
        bits = ask(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        sample = Sample(
            time_s=max(0.0, self._clock() - self._origin),
            clock_mhz=ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            power_w=power / 1000 if power is not None else None,
            temperature_c=ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            throttle=throttle_words(bits or 0),
        )
        if sample != Sample(time_s=sample.time_s):
            self.samples.append(sample)

    def __enter__(self) -> Self:
        if self.reason is None:
            self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sampler.stop()


def since(samples: Sequence[Sample], seconds: float) -> list[Sample]:
    """The samples from so many seconds on, with their times counted from there."""
    return [
        sample.model_copy(update={"time_s": sample.time_s - seconds})
        for sample in samples
        if sample.time_s >= seconds
    ]


def throttled(samples: Sequence[Sample]) -> float | None:
    """Share of the samples in which heat or power held the clock down; `None` without samples."""
    if not samples:
        return None
    return sum(bool(SLOWDOWNS & set(sample.throttle)) for sample in samples) / len(samples)
