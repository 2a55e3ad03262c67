"""The measuring loop: first step, warm-up until the step time is stationary, windows until the interval is
narrow enough.

It knows a step (a function that submits work and returns the units that it processed), a device and a clock.
The device is synchronised at window ends only: between them the host runs ahead as in real training. Several
ranks run the loop in step: each window starts behind a barrier, and every rank decides from the same
exchanged numbers, so all decide alike without a leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from accelmark import conclude, stats
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.device import Device
from accelmark.record import Window

#: Windows below which no interval is trusted to end the measurement. Stopping at the first narrow interval
#: prefers intervals that are narrow by luck and runs that happen to be free of stalls; with twenty windows to
#: start from the coverage stays near 95 % (tests/test_coverage.py).
MIN_WINDOWS_TO_STOP = 20
#: Windows that are measured even if the budget is spent: fewer than three give no usable interval.
MIN_WINDOWS = 3
#: A window is at most this share of the budget, so that a short budget still gives enough of them.
WINDOW_SHARE = 1 / 20
#: Windows that must agree before warm-up ends; four where steps are long, which cost much.
SETTLED_WINDOWS, SETTLED_LONG_STEPS = 6, 4
#: Share of the budget after which warm-up is given up.
WARM_UP_SHARE = 0.5


class Group(Protocol):
    """The ranks that measure together."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Return on all ranks at about the same time."""

    def exchange(self, values: tuple[float, ...]) -> list[tuple[float, ...]]:
        """Every rank's values, in order of rank, on every rank."""


class Alone:
    """A group of one."""

    rank = 0
    size = 1

    def barrier(self) -> None:
        """Nobody to wait for."""

    def exchange(self, values: tuple[float, ...]) -> list[tuple[float, ...]]:
        """Only one's own values."""
        return [values]


@dataclass
class Measurement:
    """What the loop saw. `settled` says whether warm-up ended because the step time was stationary.

    `origin` is the clock's reading from which windows count their start.
    """

    origin: float = 0.0
    first_step_s: float = 0.0
    settled: bool = False
    warm_up: list[Window] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)


def _nothing() -> None:
    pass


def measure(
    step: Callable[[], float],
    device: Device,
    *,
    budget_s: float,
    target: float,
    window_s: float = 0.5,
    clock: Clock = MONOTONIC,
    group: Group | None = None,
    check: Callable[[], None] = _nothing,
    on_start: Callable[[], None] = _nothing,
    on_window: Callable[[Window, bool], None] = lambda window, warm: None,
) -> Measurement:
    """Measure a step's throughput on this rank and, through `group`, on all.

    `budget_s` bounds warm-up and windows together; it starts after the first step, which may compile. `check`
    runs after every window, outside of the time, and raises if the result is no good. `on_start` runs
    right before the first measured window; `on_window` gets each window and whether it was warm-up.
    """
    group = group or Alone()
    result = Measurement()

    def run(steps: int, marks: list[object] | None = None) -> Window:
        group.barrier()
        device.synchronize()
        start = clock()
        units = 0.0
        for _ in range(steps):
            if marks is not None:
                _append_mark(device, marks)
            units += step()
        if marks is not None:
            _append_mark(device, marks)
        device.synchronize()
        seconds = clock() - start
        ranks = group.exchange((units, seconds, start - origin))
        return Window(
            start_s=max(0.0, ranks[0][2]),
            seconds=max(rank[1] for rank in ranks),
            units=math.fsum(rank[0] for rank in ranks),
            steps=steps,
            rank_seconds=[rank[1] for rank in ranks] if group.size > 1 else [],
        )

    origin = clock()
    result.first_step_s = run(1).seconds
    check()

    origin = result.origin = clock()
    window_s = min(window_s, budget_s * WINDOW_SHARE)
    # The second step is the first that costs what steps cost; it sets the length of the first window.
    window = run(1)
    result.warm_up.append(window)
    on_window(window, True)
    steps = _steps_for(window_s, window)
    while not result.settled and _left(
        result.warm_up, window, budget_s * WARM_UP_SHARE, SETTLED_LONG_STEPS + 1
    ):
        window = run(steps)
        check()
        result.warm_up.append(window)
        on_window(window, True)
        times = [w.seconds / w.steps for w in result.warm_up[1:]]
        enough = SETTLED_LONG_STEPS if steps == 1 else SETTLED_WINDOWS
        result.settled = len(times) >= enough and stats.is_settled(times[-enough:], conclude.STEADY)
        steps = _steps_for(window_s, window)

    on_start()
    while True:
        marks: list[object] = []
        window = run(steps, marks)
        check()
        result.windows.append(window)
        result.step_ms += [device.milliseconds(a, b) for a, b in pairwise(marks)]
        on_window(window, False)
        if not _left(result.windows, window, budget_s, MIN_WINDOWS):
            break
        if len(result.windows) >= MIN_WINDOWS_TO_STOP:
            estimate = stats.throughput([[(w.units, w.seconds) for w in result.windows]])
            if estimate.relative_half_width <= target:
                break
    return result


def _append_mark(device: Device, marks: list[object]) -> None:
    mark = device.mark()
    if mark is not None:
        marks.append(mark)


def _steps_for(window_s: float, last: Window) -> int:
    """Steps that fill a window, judged by the last one; seconds are the slowest rank's, alike on all."""
    return max(1, math.ceil(window_s / (last.seconds / last.steps) - 1e-9))


def _left(done: list[Window], last: Window, until_s: float, least: int) -> bool:
    """Whether another window fits before `until_s`, or is needed anyway to have the least number."""
    if len(done) < least:
        return True
    # Rank 0's clock, which every rank knows from the exchange: all ranks decide alike.
    return last.start_s + 2 * last.seconds <= until_s
