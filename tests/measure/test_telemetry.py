"""Samples of a fake board: units, words and shares."""

# ruff: noqa: N802 - a fake NVML has NVML's names

from __future__ import annotations

import threading

import pynvml
import pytest

from accelmark.measure.telemetry import Sampler, Telemetry, since, throttle_words, throttled
from accelmark.record import Sample


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


class FakeNvml:
    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = pynvml.NVMLError_DriverNotLoaded
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM
    NVML_CLOCK_MEM = pynvml.NVML_CLOCK_MEM
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU

    def __init__(self, driver: bool = True) -> None:
        self.driver = driver
        self.reasons = pynvml.nvmlClocksThrottleReasonNone
        self.lost = False
        self.has_power = True
        self.sampled = threading.Semaphore(0)

    def _answer(self, value, supported: bool = True):
        if self.lost or not supported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return value

    def nvmlInit(self) -> None:
        if not self.driver:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return self._answer(index, supported=index < 2)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return self._answer({pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 1215}[kind])

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self.sampled.release()
        return self._answer(287_500, self.has_power)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return self._answer(71)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self._answer(self.reasons)


def test_one_sample_in_the_units_of_a_record() -> None:
    nvml, clock = FakeNvml(), Clock()
    telemetry = Telemetry(0, clock, nvml=nvml)
    clock.now += 3
    nvml.reasons = pynvml.nvmlClocksThrottleReasonSwPowerCap
    telemetry.take()
    assert telemetry.reason is None
    assert telemetry.samples == [
        Sample(
            time_s=3,
            clock_mhz=1410,
            memory_clock_mhz=1215,
            power_w=287.5,
            temperature_c=71,
            throttle=["power cap"],
        )
    ]


def test_times_count_from_the_given_origin() -> None:
    clock = Clock()
    telemetry = Telemetry(0, clock, origin=40.0, nvml=FakeNvml())
    telemetry.take()
    assert telemetry.samples[0].time_s == 10


def test_a_sensor_that_is_not_there_is_left_out() -> None:
    nvml = FakeNvml()
    nvml.has_power = False
    telemetry = Telemetry(0, nvml=nvml)
    telemetry.take()
    assert telemetry.samples[0].power_w is None
    assert telemetry.samples[0].clock_mhz == 1410


def test_a_board_that_is_lost_leaves_no_samples() -> None:
    nvml = FakeNvml()
    telemetry = Telemetry(0, nvml=nvml)
    nvml.lost = True
    telemetry.take()
    assert telemetry.samples == []


def test_the_thread_samples_until_the_block_ends() -> None:
    nvml = FakeNvml()
    with Telemetry(0, nvml=nvml, interval_s=0.01) as telemetry:
        assert all(nvml.sampled.acquire(timeout=10) for _ in range(3))
    count = len(telemetry.samples)
    assert count >= 2
    assert not telemetry._sampler._thread.is_alive()


@pytest.mark.parametrize(
    ("device", "nvml", "words"),
    [
        (None, FakeNvml(), "only NVIDIA GPUs"),
        (0, FakeNvml(driver=False), "no NVIDIA driver"),
        (7, FakeNvml(), "GPU 7 does not answer"),
    ],
)
def test_elsewhere_it_does_nothing_and_says_why(device: int | None, nvml: FakeNvml, words: str) -> None:
    with Telemetry(device, nvml=nvml) as telemetry:
        pass
    assert words in telemetry.reason
    assert telemetry.samples == []


def test_a_sampler_may_be_stopped_twice_or_before_it_starts() -> None:
    calls = []
    sampler = Sampler(lambda: calls.append(1), 60)
    sampler.stop()
    started = Sampler(lambda: calls.append(1), 60)
    started.start()
    started.stop()
    started.stop()
    assert len(calls) == 1


def test_words_are_those_of_nvml() -> None:
    assert throttle_words(pynvml.nvmlClocksThrottleReasonNone) == []
    for bit, word in [
        (pynvml.nvmlClocksThrottleReasonGpuIdle, "idle"),
        (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, "application clocks"),
        (pynvml.nvmlClocksThrottleReasonSwPowerCap, "power cap"),
        (pynvml.nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"),
        (pynvml.nvmlClocksThrottleReasonSyncBoost, "sync boost"),
        (pynvml.nvmlClocksThrottleReasonSwThermalSlowdown, "thermal, software"),
        (pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, "thermal, hardware"),
        (pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"),
        (pynvml.nvmlClocksThrottleReasonDisplayClockSetting, "display clocks"),
    ]:
        assert throttle_words(bit) == [word]
    both = pynvml.nvmlClocksThrottleReasonGpuIdle | pynvml.nvmlClocksThrottleReasonSwPowerCap
    assert throttle_words(both) == ["idle", "power cap"]


def test_share_of_samples_that_were_held_down() -> None:
    def sample(*reasons: str) -> Sample:
        return Sample(time_s=0, throttle=list(reasons))

    assert throttled([]) is None
    assert throttled([sample(), sample("idle"), sample("application clocks"), sample("sync boost")]) == 0
    assert throttled([sample("power cap"), sample("idle", "thermal, software"), sample(), sample()]) == 0.5


def test_samples_from_an_instant_on_count_their_time_from_there() -> None:
    taken = [Sample(time_s=second) for second in (0.0, 1.0, 2.5)]
    assert [each.time_s for each in since(taken, 1.0)] == [0.0, 1.5]
    assert since(taken, 3.0) == []
