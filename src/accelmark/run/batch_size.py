"""Batch sizes that are found on the machine: the largest that fits, the fastest, the largest in time.

Never a table of device names. Every batch is tried in a process of its own, so that memory runs out there;
only running out of memory (or of patience) bounds the search, any other failure ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accelmark.record import BatchTrial, Record, Status

#: Tries one batch size and returns the Record of the process.
Try = Callable[[int], Record]

#: A step longer than this ends the growth: larger batches would fit and take minutes a step.
MAX_STEP_S = 20.0
#: Batches are not tried beyond this; a network so small that it fits is limited by something else.
MAX_BATCH = 65536
#: The largest batch is found to one part in this many.
RESOLUTION = 16
#: The share of calls that may be later than a latency bound: what lies beyond the 99th percentile.
LATE = 0.01
#: Calls that it takes to tell.
CALLS_TO_TELL = 500
#: A sweep for the fastest batch ends after so many batches that were not faster by `GAIN`.
PATIENCE, GAIN = 2, 1.02


@dataclass
class Search:
    """What a search found. `batch_size` is None if not even one fitted; then `failure` says why.

    `bound` says what ended the growth: memory, the length of a step, or the largest batch that is tried.
    """

    batch_size: int | None = None
    bound: str = ""
    curve: list[BatchTrial] = field(default_factory=list)
    failure: Record | None = None


class _Tries:
    """Tries batch sizes and keeps the curve; with a bound in ms, a batch whose calls are late fits not."""

    def __init__(self, attempt: Try, bound_ms: float | None = None) -> None:
        self.attempt, self.bound_ms = attempt, bound_ms
        self.search = Search()
        self.too_long = False

    def fits(self, batch_size: int) -> bool:
        """Whether a batch runs. A failure that is neither memory nor time is kept and ends the search."""
        record = self.attempt(batch_size)
        memory = record.metrics.memory_peak_gib or record.metrics.host_memory_peak_gib
        windows = record.samples.windows
        rate = sum(w.units for w in windows) / sum(w.seconds for w in windows) if windows else None
        ran = record.status in (Status.OK, Status.NOISY, Status.NOT_STATIONARY)
        late = late_share(record, self.bound_ms) if self.bound_ms is not None and ran else None
        self.search.curve.append(
            BatchTrial(
                batch_size=batch_size,
                status=record.status,
                throughput=rate if ran else None,
                latency_ms=record.metrics.latency_ms,
                late_share=late,
                memory_peak_gib=memory,
                reason=record.reasons[0] if record.reasons and not ran else None,
            )
        )
        if not ran:
            if record.status is Status.OUT_OF_MEMORY:
                self.search.bound = "memory"
            elif record.status is Status.TIMED_OUT:
                self.search.bound = "the length of a step"
            elif record.status is not Status.UNSUPPORTED:
                self.search.failure = record
            return False
        if late is not None and late > LATE:
            self.search.bound = f"the latency bound of {self.bound_ms:g} ms"
            return False
        if max((w.seconds / w.steps for w in windows), default=0.0) > MAX_STEP_S:
            self.too_long = True
            self.search.bound = "the length of a step"
        return True


def late_share(record: Record, bound_ms: float) -> float:
    """The share of calls that took longer than the bound; of a Record without calls all."""
    calls = record.samples.calls
    if calls is None or not calls.ms:
        return 1.0
    return sum(ms > bound_ms for ms in calls.ms) / len(calls.ms)


def knee(curve: Sequence[BatchTrial]) -> int | None:
    """The batch size at which throughput over mean latency is largest; None without two batches.

    Beyond it a larger batch costs more time than it gains throughput (Kleinrock, ICC 1979, calls the ratio
    power).
    """
    power = {
        trial.batch_size: trial.throughput / trial.latency_ms.mean
        for trial in curve
        if trial.throughput is not None and trial.latency_ms is not None and trial.latency_ms.mean is not None
    }
    return max(power, key=lambda batch: power[batch]) if len(power) > 1 else None


def largest(attempt: Try, start: int, limit: int = MAX_BATCH, bound_ms: float | None = None) -> Search:
    """The largest batch size that runs, by doubling from `start` and then bisecting.

    With `bound_ms`, the largest whose 99th percentile of latency is at most that: of whose calls at most one
    in a hundred took longer.
    """
    tries = _Tries(attempt, bound_ms)
    search = tries.search
    fits, fails = 0, limit + 1
    batch = min(start, limit)
    while search.failure is None:
        if tries.fits(batch):
            fits = batch
            if tries.too_long:
                break
        else:
            fails = batch
        if fails <= fits + max(1, fits // RESOLUTION):
            break
        if fits == 0:
            batch = fails // 2
        elif fails > limit:
            batch = min(2 * fits, limit)
        else:
            batch = (fits + fails) // 2
        if batch < 1:
            break
    search.batch_size = fits or None
    search.bound = search.bound or "the largest batch that is tried"
    search.curve.sort(key=lambda trial: trial.batch_size)
    return search


def fastest(attempt: Try, start: int) -> Search:
    """The batch size with the highest throughput: doubling from 1 until it stops paying or fitting."""
    tries = _Tries(attempt)
    search = tries.search
    batch, best, idle = 1, 0.0, 0
    while batch <= MAX_BATCH and idle < PATIENCE and search.failure is None:
        if not tries.fits(batch):
            if search.curve[-1].status is Status.UNSUPPORTED:
                batch *= 2  # a network may need more than a batch of one
                continue
            break
        rate = search.curve[-1].throughput or 0.0
        idle = 0 if rate > GAIN * best or batch < start else idle + 1
        if rate > best:
            best, search.batch_size = rate, batch
        if tries.too_long:
            break
        batch *= 2
    search.bound = search.bound or "throughput that rises no more"
    return search
