"""The real measuring loop with a clock and a device of known speed: its numbers must be arithmetic's."""

from __future__ import annotations

import pytest

from accelmark import conclude
from accelmark.errors import DivergedError
from accelmark.measure.loop import Measurement, measure
from accelmark.record import Status, Throughput
from tests.fakes import FakeClock, FakeDevice, FakeGroup, FakeStep, on_ranks


def run(seconds, units=8.0, budget_s=20.0, target=0.01):
    clock = FakeClock()
    device = FakeDevice(clock)
    step = FakeStep(device, units, seconds)
    return measure(step, device, budget_s=budget_s, target=target, clock=clock), clock, step


def result(measurement: Measurement) -> Throughput:
    metric = conclude.throughput(measurement.windows, "images/s")
    assert metric is not None
    return metric


def status(measurement: Measurement, target=0.01) -> Status:
    if conclude.stationarity(measurement.warm_up, measurement.windows, measurement.settled):
        return Status.NOT_STATIONARY
    return conclude.spread(result(measurement), target)[0]


def test_constant_step_gives_batch_over_step_time() -> None:
    measurement, _, _ = run(lambda i: 0.020, units=32)
    metric = result(measurement)
    assert metric.value == pytest.approx(32 / 0.020, rel=1e-3)
    assert metric.ci95 is not None
    assert metric.ci95[0] <= metric.value <= metric.ci95[1]
    assert metric.n == len(measurement.windows) == 20
    assert status(measurement) is Status.OK


def test_device_is_synchronised_at_window_ends_only() -> None:
    clock = FakeClock()
    device = FakeDevice(clock)
    measurement = measure(FakeStep(device, 1, lambda i: 0.010), device, budget_s=20, target=0.01, clock=clock)
    windows = 1 + len(measurement.warm_up) + len(measurement.windows)
    assert device.synchronized == 2 * windows
    assert all(window.steps == 50 for window in measurement.windows)


def test_windows_last_half_a_second_or_one_step() -> None:
    short, _, _ = run(lambda i: 0.0007)
    assert all(window.seconds >= 0.5 for window in short.windows)
    long, _, _ = run(lambda i: 3.0, budget_s=60)
    assert all(window.steps == 1 for window in long.windows)


def test_slow_first_part_is_warm_up_and_does_not_enter() -> None:
    # The first 2 s of work run at a fifth of the speed, easing off: caches, clocks, autotuning.
    measurement, _, _ = run(lambda i: 0.010 * (1 + 4 * 0.97**i))
    assert result(measurement).value == pytest.approx(8 / 0.010, rel=0.01)
    assert measurement.settled
    assert status(measurement) is Status.OK


def test_first_step_is_apart() -> None:
    measurement, _, _ = run(lambda i: 30.0 if i == 0 else 0.010)
    assert measurement.first_step_s == pytest.approx(30.0, rel=1e-4)
    assert result(measurement).value == pytest.approx(800, rel=1e-3)


def test_drift_is_not_stationary() -> None:
    measurement, _, _ = run(lambda i: 0.010 * (1 + i / 4000), target=0.001)
    assert status(measurement) is Status.NOT_STATIONARY
    reason = conclude.stationarity(measurement.warm_up, measurement.windows, measurement.settled)
    assert reason is not None
    assert "rose" in reason


def test_a_step_that_only_gets_faster_never_settles() -> None:
    # Eases off so slowly that warm-up is given up; with windows this long six of them cannot show it alone.
    measurement, _, _ = run(lambda i: 1.0 + 3.0 * 0.85**i, budget_s=12)
    assert not measurement.settled
    assert status(measurement) is Status.NOT_STATIONARY


def test_noise_that_keeps_warm_up_from_settling_is_noisy_not_unsteady() -> None:
    times = [0.4, 0.6, 0.41, 0.7, 0.5, 0.4, 0.9, 0.45, 0.55, 0.42]
    measurement, _, _ = run(lambda i: times[i % len(times)], budget_s=6)
    assert status(measurement) is Status.NOISY


def test_throttling_in_the_middle_is_not_stationary() -> None:
    # 100 steps a second with a little noise: the slow-down begins after about 10 of 20 s.
    measurement, _, _ = run(
        lambda i: (0.010 if i < 1000 else 0.013) * (1 + 0.02 * (i * 7919 % 101) / 101), target=1e-6
    )
    assert status(measurement, target=1e-6) is Status.NOT_STATIONARY


def test_a_stall_counts_as_time_and_makes_the_result_noisy() -> None:
    measurement, _, step = run(lambda i: 2.0 if i == 700 else 0.010, target=0.001)
    metric = result(measurement)
    in_windows = sum(window.steps for window in measurement.windows)
    seconds = in_windows * 0.010 + (2.0 - 0.010)
    assert step.count > 700
    assert metric.value == pytest.approx(in_windows * 8 / seconds, rel=1e-3)
    assert status(measurement) is Status.NOISY


def test_throughput_is_no_mean_of_rates() -> None:
    # Alternating windows at 10 and 30 ms a step: 8 units in 20 ms on average; the mean of rates says 533.
    measurement, _, _ = run(lambda i: 0.6 if i % 2 else 0.2, budget_s=30)
    assert result(measurement).value == pytest.approx(8 / 0.4, rel=0.02)


def test_short_last_batch_counts_its_own_units() -> None:
    clock = FakeClock()
    device = FakeDevice(clock)
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        device.submit(0.010)
        return 3.0 if count % 5 == 0 else 8.0

    measurement = measure(step, device, budget_s=20, target=0.01, clock=clock)
    assert result(measurement).value == pytest.approx((4 * 8 + 3) / 0.050, rel=1e-3)


def test_gradient_accumulation_counts_all_micro_batches() -> None:
    clock = FakeClock()
    device = FakeDevice(clock)

    def step() -> float:
        units = 0.0
        for _ in range(4):
            device.submit(0.010)
            units += 8
        return units

    measurement = measure(step, device, budget_s=20, target=0.01, clock=clock)
    assert result(measurement).value == pytest.approx(800, rel=1e-3)


def test_marks_give_every_steps_time() -> None:
    measurement, _, _ = run(lambda i: 0.025)
    assert len(measurement.step_ms) == sum(window.steps for window in measurement.windows)
    assert measurement.step_ms[5] == pytest.approx(25.0, rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_sum_units_over_the_slowest_ranks_time(ranks: int) -> None:
    results: list[Measurement] = []

    def body(group: FakeGroup, clock: FakeClock) -> None:
        device = FakeDevice(clock)
        # The last rank is slower by a quarter: it sets the pace of all.
        seconds = 0.0125 if group.rank == group.size - 1 else 0.010
        step = FakeStep(device, 8, lambda i: seconds)
        results.append(measure(step, device, budget_s=20, target=0.01, clock=clock, group=group))

    on_ranks(ranks, body)
    assert len(results) == ranks
    for measurement in results:
        metric = result(measurement)
        assert metric.value == pytest.approx(ranks * 8 / 0.0125, rel=1e-3)
        assert measurement.windows == results[0].windows
        assert len(measurement.windows[0].rank_seconds) == ranks
        assert min(measurement.windows[0].rank_seconds) == pytest.approx(
            0.8 * max(measurement.windows[0].rank_seconds), rel=1e-3
        )


def test_budget_is_kept() -> None:
    measurement, clock, _ = run(lambda i: 0.05 * (1 + 0.3 * (i * 7919 % 13) / 13), budget_s=8, target=1e-6)
    assert clock.now - 100.0 <= 8.0 + 0.2
    assert status(measurement, 1e-6) is Status.NOISY


def test_a_step_longer_than_the_budget_still_gives_three_windows() -> None:
    measurement, _, _ = run(lambda i: 30.0, budget_s=5)
    assert len(measurement.windows) == 3
    assert result(measurement).value == pytest.approx(8 / 30, rel=1e-4)


def test_check_ends_the_measurement() -> None:
    clock = FakeClock()
    device = FakeDevice(clock)

    def check() -> None:
        raise DivergedError("the loss is nan")

    with pytest.raises(DivergedError):
        measure(FakeStep(device, 1, lambda i: 0.1), device, budget_s=5, target=0.1, clock=clock, check=check)
