"""Latency and throughput of an engine with known service times: one stream, several, and in parts."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from accelmark import conclude
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.pytorch import TorchDevice
from accelmark.job import Job
from accelmark.measure.clock import MONOTONIC
from accelmark.measure.loop import Alone, measure
from accelmark.record import Agreement, Calls, Execution, Throughput, Window
from accelmark.scenarios.inference import Answering, Timed
from accelmark.scenarios.parts import common_window, parts_of, with_power
from accelmark.scenarios.ready import Ready
from tests.fakes import FakeClock, FakeDevice


class FakeEngine:
    """Answers in a time that the call's number gives, by a fake clock or by sleeping."""

    def __init__(self, seconds: Callable[[int], float], sleep: Callable[[float], None]) -> None:
        self.seconds, self.sleep, self.count = seconds, sleep, 0
        self.asked: list[int] = []
        self.lock = threading.Lock()

    def stream(self) -> Callable[[Any], Any]:
        def call(inputs: int) -> None:
            with self.lock:
                turn, self.count = self.count, self.count + 1
                self.asked.append(inputs)
            self.sleep(self.seconds(turn))

        return call


class FakeAnswering:
    """What `Timed` needs of a network that is ready: four batches of so many rows."""

    def __init__(self, engine: FakeEngine, rows: int) -> None:
        self.prepared, self.rows, self.placed = engine, rows, [0, 1, 2, 3]


def timed(engine: FakeEngine, rows: int, streams: int = 1, clock: Any = MONOTONIC) -> Timed:
    return Timed(cast(Answering, FakeAnswering(engine, rows)), streams, clock=clock)


def test_one_stream_has_the_engines_times_and_its_throughput() -> None:
    clock = FakeClock()
    # Of a hundred calls 98 take 2 ms, one 5 ms and one 20 ms.
    engine = FakeEngine(lambda turn: {49: 0.005, 99: 0.020}.get(turn % 100, 0.002), clock.advance)
    one = timed(engine, 8, clock=clock)
    with one.running(FakeDevice(clock)) as (step, device):
        result = measure(
            step, device, budget_s=100, target=1e-9, window_s=0.663, clock=clock, on_start=one.forget
        )
    calls = one.calls()
    assert len(calls.ms) == sum(window.steps for window in result.windows)
    latency = conclude.latency(calls.ms)
    assert latency is not None
    assert latency.n == len(calls.ms) > 5000
    assert latency.p50 == pytest.approx(2)
    assert latency.p97 == pytest.approx(2)
    assert latency.p99 == pytest.approx(5)
    assert latency.p99_9 == pytest.approx(20)
    assert latency.max == pytest.approx(20)
    assert latency.mean == pytest.approx((98 * 2 + 5 + 20) / 100, rel=0.01)
    throughput = conclude.throughput(result.windows, "images/s")
    assert throughput is not None
    assert throughput.value == pytest.approx(8 * 100 / 0.221, rel=0.01)
    # Inputs take turns, so that no cache answers.
    assert engine.asked[:6] == [0, 1, 2, 3, 0, 1]


def test_streams_overlap_and_each_call_keeps_its_own_time() -> None:
    engine = FakeEngine(lambda turn: 0.02, time.sleep)
    three = timed(engine, 4, streams=3)
    clock = FakeClock()
    with three.running(FakeDevice(clock)) as (step, device):
        result = measure(step, device, budget_s=1.5, target=1e-9, on_start=three.forget)
    calls = three.calls()
    assert set(calls.stream) == {0, 1, 2}
    assert min(calls.ms) >= 20
    throughput = conclude.throughput(result.windows, "images/s")
    assert throughput is not None
    # A sleep is at least as long as it was to be: three streams are never faster than this. One stream, or a
    # call counted twice, would be off by a factor of two and more.
    most = 3 * 4 / 0.02
    assert 0.5 * most < throughput.value < 1.05 * most


def test_an_engine_that_fails_in_a_stream_fails_the_measurement() -> None:
    def broken(turn: int) -> float:
        if turn > 20:
            raise RuntimeError("the engine is gone")
        return 0.001

    two = timed(FakeEngine(broken, time.sleep), 1, streams=2)
    with (
        pytest.raises(RuntimeError, match="the engine is gone"),
        two.running(FakeDevice(FakeClock())) as (step, device),
    ):
        measure(step, device, budget_s=5, target=1e-9)


class FakePrepared(Prepared):
    """An engine whose calls take 4 ms and whose copies take 10 ms there and 6 ms back."""

    execution = Execution(provider="fake")

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def place(self, inputs: tuple[Any, ...]) -> Any:
        self.clock.advance(0.010)
        return inputs

    def stream(self) -> Callable[[Any], Any]:
        def call(inputs: Any) -> Any:
            self.clock.advance(0.004)
            return inputs

        return call

    def fetch(self, outputs: Any) -> list[torch.Tensor]:
        self.clock.advance(0.006)
        return list(outputs)


def test_loading_the_first_call_and_calls_with_copies_are_told_apart(tmp_path: Path) -> None:
    clock = FakeClock()

    def prepare(load: Load) -> Prepared:
        clock.advance(7)
        return FakePrepared(clock)

    batches = [(torch.full((2, 3), float(i)),) for i in range(4)]
    asked = Ready(
        torch.nn.Identity(), batches, [list(b) for b in batches], 10, 600.0, 48.0, torch.contiguous_format
    )
    job = Job(network="fake", scenario="inference", batch_size=2)
    answering = Answering(asked, job, TorchDevice("cpu"), tmp_path, clock, prepare)
    assert [each[0].tolist() for each in answering.outputs()] == [b[0].tolist() for b in batches]
    known = answering.metrics(Agreement(reference="r", samples=8, bound=1))
    assert known["load_s"] == pytest.approx(7)
    assert known["flops_per_sample"] == 300
    assert answering.first_call_s == pytest.approx(0.004)
    latency = conclude.latency(answering.with_copies())
    assert latency is not None
    assert latency.mean == pytest.approx(20)
    assert latency.n == 50


class TwoParts(Alone):
    """The exchange of two parts: the other one was twice as fast alone."""

    size = 2

    def exchange(self, values: tuple[float, ...]) -> list[tuple[float, ...]]:
        return [values, (2 * values[0], *values[1:])]


def test_parts_add_up_over_the_time_that_they_have_in_common() -> None:
    # In each window both parts counted 100 images, one in 1 s and the other in 2 s, going on for another 100.
    windows = [
        Window(start_s=i * 2, seconds=2.0, units=200, steps=25, rank_seconds=[1.0, 2.0]) for i in range(5)
    ]
    total = conclude.throughput([common_window(window) for window in windows], "images/s")
    assert total is not None
    assert total.value == pytest.approx(100 + 50)
    calls = Calls(process=[0] * 40, stream=[0] * 20 + [1] * 20, ms=[40.0] * 20 + [80.0] * 20)
    parts = parts_of(TwoParts(), windows, calls, Throughput(value=110, unit="images/s"))
    assert [part.throughput.value for part in parts] == [pytest.approx(100), pytest.approx(50)]
    assert math.fsum(part.throughput.value for part in parts) == pytest.approx(total.value)
    assert [part.alone.value for part in parts] == [110, 220]
    assert [part.latency_ms.mean for part in parts if part.latency_ms] == [40, 80]
    assert [part.power_w for part in with_power(parts, 300)] == [pytest.approx(200), pytest.approx(100)]


def test_a_percentile_needs_five_calls_beyond_it() -> None:
    latency = conclude.latency([float(i) for i in range(1, 51)])
    assert latency is not None
    assert (latency.p50, latency.p90) == (25, 45)
    assert latency.p95 is latency.p99 is latency.p99_9 is None
    assert latency.max == 50
    five_hundred = conclude.latency([float(i) for i in range(1, 501)])
    assert five_hundred is not None
    assert (five_hundred.p99, five_hundred.p99_9) == (495, None)
    many = conclude.latency([float(i) for i in range(1, 5001)])
    assert many is not None
    assert many.p99_9 == 4995
    assert conclude.latency([]) is None
