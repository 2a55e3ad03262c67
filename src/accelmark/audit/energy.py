"""Energy, power and efficiency, against each other and against what the board may draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from accelmark.audit.finding import Finding
from accelmark.audit.rows import count, span
from accelmark.names import facts
from accelmark.record import Record, Sample, Window
from accelmark.text import number

#: Energy against power x time of the same counter, and against the board's power sensor, which is good to 5 %
#: and read once a second. Boards of one machine differ by a few percent, and the sensor's readings are of one
#: of them.
DISAGREE = 0.15
#: More than that is no matter of sensors: units, time or number of boards are wrong.
CONTRADICT = 0.50
#: Readings of a sensor fewer than these say nothing of a mean.
LEAST_SAMPLES = 5
#: A limit holds for a moving mean; short of it a board may draw a little more.
ABOVE_LIMIT = 0.05
#: Efficiency x power against throughput, all three of the same time.
EFFICIENCY = 0.05


def energy_against_power(records: Sequence[Record]) -> Iterator[Finding]:
    """The energy counter against the mean power x measured time, and against the board's power sensor.

    Measured time is that of the windows. The sensor's readings are of one board, so with several the
    counter's share for one is held against them; of the CPU packages there are none. Says nothing without
    windows, nor with fewer than five readings in them.
    """
    for record in records:
        joules, watts = record.metrics.energy_j, record.metrics.power_w
        seconds = sum(window.seconds for window in record.samples.windows)
        if joules is None or not math.isfinite(seconds) or seconds <= 0:
            continue
        if watts is not None:
            yield from _compare(record, joules, watts * seconds, "the mean power over the measured windows")
        sensor = _sensor_power(record)
        boards = count(record.job.accelerators)
        whole_boards = record.job.partition is None and record.metrics.power_basis != "system"
        if sensor is not None and boards is not None and whole_boards:
            yield from _compare(
                record,
                joules,
                sensor * seconds * boards,
                "the board's power sensor over the measured windows",
            )


def _compare(record: Record, joules: float, expected: float, what: str) -> Iterator[Finding]:
    ratio = joules / expected if expected > 0 else math.inf
    if 1 / (1 + DISAGREE) <= ratio <= 1 + DISAGREE:
        return
    contradicts = not 1 / (1 + CONTRADICT) <= ratio <= 1 + CONTRADICT
    yield Finding(
        rule="energy-against-power",
        severity="error" if contradicts else "warning",
        records=(record.id,),
        expected=f"{number(expected)} J",
        found=f"{number(joules)} J",
        message=f"{record.id}: the energy counter shows {number(joules)} J, {what} {number(expected)} J: "
        + (
            "units, time or the number of boards is wrong" if contradicts else "one of the two sensors is off"
        ),
    )


def _sensor_power(record: Record) -> float | None:
    """Mean watts of the board's sensor within the measured windows, weighted by time, over all processes."""
    pieces = _by_process(record.samples.telemetry)
    windows: dict[int, list[Window]] = {}
    for window in record.samples.windows:
        windows.setdefault(window.process, []).append(window)
    # Readings carry no number of their process; where one process has none, they cannot be told apart.
    if not pieces or len(pieces) != len(windows):
        return None
    joules = seconds = 0.0
    readings = 0
    for piece, process in zip(pieces, sorted(windows), strict=True):
        begin = min(window.start_s for window in windows[process])
        end = max(window.start_s + window.seconds for window in windows[process])
        # Readings count from before the first step, which may compile for minutes, windows from after it.
        # Both end together, so they are put beside each other from the end.
        since = max((time_s for time_s, _ in piece), default=0.0) - (end - begin)
        inside = [(time_s, watts) for time_s, watts in piece if time_s >= since]
        readings += len(inside)
        for (before, watts), (after, more) in itertools.pairwise(inside):
            joules += (after - before) * (watts + more) / 2
            seconds += after - before
    if readings < LEAST_SAMPLES or seconds <= 0 or not 0 < joules < math.inf:
        return None
    return joules / seconds


def _by_process(telemetry: Sequence[Sample]) -> list[list[tuple[float, float]]]:
    """Times and watts of each process: time starts again from zero with each."""
    pieces: list[list[tuple[float, float]]] = []
    last = math.inf
    for sample in telemetry:
        if sample.time_s < last:
            pieces.append([])
        last = sample.time_s
        if sample.power_w is not None and sample.power_w > 0:
            pieces[-1].append((sample.time_s, sample.power_w))
    return pieces


def efficiency_against_power(records: Sequence[Record]) -> Iterator[Finding]:
    """Units per joule x watts is the throughput. Says nothing where one of the three is missing."""
    for record in records:
        metrics = record.metrics
        metric, efficiency, power = metrics.throughput, metrics.efficiency, metrics.power_w
        if metric is None or efficiency is None or power is None:
            continue
        if efficiency.value <= 0 or efficiency.unit != f"{metric.unit}/W":
            continue
        rate, watts = span(record, metric.value), span(record, power)
        per_joule = span(record, efficiency.value)
        least, most = per_joule.low * watts.low, per_joule.high * watts.high
        if rate.low <= most * (1 + EFFICIENCY) and rate.high >= least * (1 - EFFICIENCY):
            continue
        expected = per_joule.value * watts.value
        yield Finding(
            rule="efficiency-against-power",
            severity="error",
            records=(record.id,),
            expected=f"{number(expected)} {metric.unit}",
            found=f"{rate.value:,.10g} {metric.unit}",
            message=f"{record.id}: {efficiency.value:,.10g} {efficiency.unit} at {number(power)} W would be "
            f"{number(expected)} {metric.unit}, not {rate.value:,.10g}",
        )


def above_power_limit(records: Sequence[Record]) -> Iterator[Finding]:
    """Power of the boards, stated or from throughput / efficiency, against their limit.

    The limit is the Record's own or the board's of the table; power of a whole system is held against none.
    """
    for record in records:
        watts = _board_power(record)
        accelerators = count(record.job.accelerators)
        if watts is None or accelerators is None:
            continue
        board = facts.board(record.system.accelerator.name)
        limit = record.system.accelerator.power_limit_w or (board.power_w if board else None)
        if limit is None or limit <= 0 or watts <= limit * accelerators * (1 + ABOVE_LIMIT):
            continue
        yield Finding(
            rule="above-power-limit",
            severity="error",
            records=(record.id,),
            expected=f"at most {number(limit * accelerators)} W",
            found=f"{number(watts)} W",
            message=f"{record.id}: the boards would draw {number(watts)} W, and their limit is "
            f"{number(limit * accelerators)} W",
        )


def _board_power(record: Record) -> float | None:
    """Watts of the boards at the least that rounding allows."""
    metrics = record.metrics
    if metrics.power_basis != "board" and not (metrics.energy_source or "").startswith("NVML"):
        return None
    if metrics.power_w is not None:
        return span(record, metrics.power_w).low
    if metrics.efficiency is None or metrics.throughput is None:
        return None
    if metrics.efficiency.value <= 0 or metrics.efficiency.unit != f"{metrics.throughput.unit}/W":
        return None
    return span(record, metrics.throughput.value).low / span(record, metrics.efficiency.value).high
