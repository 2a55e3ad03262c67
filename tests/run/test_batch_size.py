"""The search for a batch size against machines whose answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from accelmark import conclude
from accelmark.record import Calls, Metrics, Record, Samples, Status, Window
from accelmark.run import batch_size
from tests.records import record


def machine(
    fits_up_to: int, seconds: Callable[[int], float] = lambda b: 0.01 * b
) -> tuple[Callable, list[int]]:
    tried: list[int] = []

    def attempt(batch: int) -> Record:
        tried.append(batch)
        if batch > fits_up_to:
            return record(
                status=Status.OUT_OF_MEMORY, reasons=["no memory"], samples=Samples(), metrics=Metrics()
            )
        window = Window(start_s=0, seconds=seconds(batch), units=batch, steps=1)
        return record(
            samples=Samples(windows=[window]), metrics=Metrics(host_memory_peak_gib=0.1 + 0.01 * batch)
        )

    return attempt, tried


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 37, 100, 511, 512, 1000])
@pytest.mark.parametrize("start", [1, 8, 32])
def test_largest_is_found_to_one_part_in_sixteen_and_never_exceeds(limit: int, start: int) -> None:
    attempt, tried = machine(limit)
    search = batch_size.largest(attempt, start)
    assert search.batch_size is not None
    assert search.batch_size <= limit
    assert search.batch_size >= limit - max(1, limit // 16)
    assert search.bound == "memory"
    assert len(tried) == len(set(tried)) <= 20
    assert [trial.batch_size for trial in search.curve] == sorted(tried)
    assert all((trial.status is Status.OK) == (trial.batch_size <= limit) for trial in search.curve)


def test_not_even_one_fits() -> None:
    attempt, _ = machine(0)
    search = batch_size.largest(attempt, 32)
    assert search.batch_size is None
    assert search.failure is None


def test_growth_ends_at_long_steps_and_says_so() -> None:
    attempt, tried = machine(10**9, lambda batch: 1.0 * batch)
    search = batch_size.largest(attempt, 8)
    assert search.batch_size == 32
    assert search.bound == "the length of a step"
    assert max(tried) == 32


def test_growth_ends_at_the_largest_batch_that_is_tried() -> None:
    attempt, _ = machine(10**9, lambda batch: 1e-6)
    search = batch_size.largest(attempt, 32)
    assert search.batch_size == batch_size.MAX_BATCH
    assert search.bound == "the largest batch that is tried"


def test_any_other_failure_ends_the_search() -> None:
    def attempt(batch: int) -> Record:
        return record(status=Status.CRASHED, reasons=["SIGSEGV"], samples=Samples(), metrics=Metrics())

    search = batch_size.largest(attempt, 8)
    assert search.batch_size is None
    assert search.failure is not None
    assert search.failure.status is Status.CRASHED
    assert len(search.curve) == 1


def test_fastest_is_where_throughput_peaks_and_the_curve_is_kept() -> None:
    # 10 ms a step and 1 ms a sample up to 64, where a cache overflows and samples take 2 ms.
    attempt, _ = machine(10**9, lambda b: 0.010 + (0.001 if b <= 64 else 0.002) * b)
    search = batch_size.fastest(attempt, 8)
    assert search.batch_size == 64
    rates = {trial.batch_size: trial.throughput for trial in search.curve}
    assert rates[64] == pytest.approx(64 / 0.074)
    assert rates[1] == pytest.approx(1 / 0.011)
    assert set(rates) >= {1, 2, 4, 8, 16, 32, 64, 128, 256}


def test_fastest_passes_over_batches_too_small_to_train() -> None:
    works, _ = machine(20, lambda b: 0.1 + 0.001 * b)

    def attempt(batch: int) -> Record:
        if batch < 2:
            return record(
                status=Status.UNSUPPORTED, reasons=["2 and more"], samples=Samples(), metrics=Metrics()
            )
        return works(batch)

    assert batch_size.fastest(attempt, 8).batch_size == 16


def test_fastest_stays_within_memory() -> None:
    attempt, _ = machine(20, lambda b: 0.1 + 0.001 * b)
    search = batch_size.fastest(attempt, 8)
    assert search.batch_size == 16
    assert search.curve[-1].status is Status.OUT_OF_MEMORY


def answering(batch_size: int, calls: int = 600, spread: float = 0.05) -> Record:
    """A trial whose calls take 1 ms and 0.25 ms a sample, with noise that has a tail."""
    noise = np.random.default_rng(batch_size).lognormal(0, spread, calls)
    ms = list((1 + 0.25 * batch_size) * noise)
    trial = record()
    window = Window(start_s=0, seconds=sum(ms) / 1000, units=batch_size * calls, steps=calls)
    return trial.replace(
        metrics=Metrics(latency_ms=conclude.latency(ms)),
        samples=Samples(windows=[window], calls=Calls(process=[0] * calls, stream=[0] * calls, ms=ms)),
    )


@pytest.mark.parametrize("bound_ms", [2.0, 7.0, 20.0])
def test_the_largest_batch_under_a_bound(bound_ms: float) -> None:
    search = batch_size.largest(answering, 8, bound_ms=bound_ms)
    # 99 % of a log-normal's values are below exp(2.326 x its deviation).
    ideal = (bound_ms / math.exp(2.326 * 0.05) - 1) / 0.25
    assert search.batch_size is not None
    assert 0.9 * ideal - 1 <= search.batch_size <= 1.02 * ideal + 1
    assert search.bound == f"the latency bound of {bound_ms:g} ms"
    late = {trial.batch_size: trial.late_share for trial in search.curve}
    assert late[search.batch_size] is not None
    assert late[search.batch_size] <= batch_size.LATE


def test_no_batch_is_fast_enough() -> None:
    search = batch_size.largest(answering, 4, bound_ms=0.5)
    assert search.batch_size is None
    assert search.failure is None


def test_the_knee_is_where_more_batch_costs_more_time_than_it_gains() -> None:
    # Throughput b / (1 + b/4) over latency (1 + b/4): largest at b = 4.
    curve = batch_size.fastest(answering, 64).curve
    assert batch_size.knee(curve) == 4
    assert batch_size.knee(curve[:1]) is None
