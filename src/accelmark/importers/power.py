"""A power meter's log of one's own, as `spl.txt` (see `spl`) or as CSV, and what it says of a measurement.

A CSV has a header with a column for the time and one for watts:

    time,watts
    2026-12-07T09:39:03.120,412.5

Times are ISO 8601, of the zone that they name or else of this machine's, or seconds since 1970.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from accelmark.errors import UnreadableInputError
from accelmark.importers import spl
from accelmark.importers.spl import MAX_GAP_S
from accelmark.record import Quantity, Record, Span

#: What the columns may be called.
TIMES, WATTS = ("time", "timestamp", "date"), ("watts", "power_w", "power", "w")


def with_power(record: Record, path: Path) -> Record:
    """A measured Record with the energy of the whole system over its measured windows, from a log.

    Where the log does not cover them, the Record says so and keeps what else it has. An
    `UnreadableInputError` says what is wrong with a file that is no log.
    """
    throughput, spans = record.metrics.throughput, record.samples.spans
    if throughput is None or not spans:
        return record
    joules = seconds = 0.0
    for span in spans:
        watts, why = mean_w(path, span)
        if watts is None:
            missing = {**record.metrics.not_measured, "energy_j": f"{path.name}: {why}"}
            return record.replace(metrics=record.metrics.model_copy(update={"not_measured": missing}))
        length = (span.end - span.begin).total_seconds()
        joules, seconds = joules + watts * length, seconds + length
    power = joules / seconds
    # Energy is of the windows, as units are; between them next to no time passes.
    windows = math.fsum(window.seconds for window in record.samples.windows)
    missing = {name: why for name, why in record.metrics.not_measured.items() if name != "energy_j"}
    metrics = record.metrics.model_copy(
        update={
            "energy_j": power * windows,
            "power_w": power,
            "idle_power_w": None,
            "energy_source": f"power log {path.name}",
            "power_basis": "system",
            "efficiency": Quantity(value=throughput.value / power, unit=f"{throughput.unit}/W"),
            "not_measured": missing,
        }
    )
    return record.replace(metrics=metrics)


def mean_w(path: Path, span: Span) -> tuple[float | None, str | None]:
    """The mean power over a span, or why the log cannot say."""
    try:
        with path.open("rb") as file:
            first = file.readline(200)
        if first.startswith(b"Time,"):
            # PTDaemon writes the clock of its machine, without a zone.
            log = spl.read(path, (_local(span.begin), _local(span.end)))
            return log.mean_w, log.why
        return _mean_of_csv(path, span)
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInputError(f"{path} cannot be read as a power log: {error}") from error


def _local(time: datetime) -> datetime:
    return time.astimezone().replace(tzinfo=None)


def _mean_of_csv(path: Path, span: Span) -> tuple[float | None, str | None]:
    begin, end = span.begin.timestamp(), span.end.timestamp()
    total, count, last, gap = 0.0, 0, begin, 0.0
    for time, watts in _samples(path):
        if begin <= time <= end:
            total, count = total + watts, count + 1
            gap, last = max(gap, time - last), max(last, time)
    gap = max(gap, end - last)
    if not count:
        return None, "no sample of the power log lies in the measured time; the clocks may differ"
    if gap > MAX_GAP_S:
        return None, f"the power log has no sample for {gap:.1f} s of the measured time"
    return total / count, None


def _samples(path: Path) -> Iterator[tuple[float, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = [name.strip().lower() for name in next(rows, [])]
        time = next((i for i, name in enumerate(header) if name in TIMES), None)
        watts = next((i for i, name in enumerate(header) if name in WATTS), None)
        if time is None or watts is None:
            raise UnreadableInputError(
                f"{path} is no power log: give an spl.txt, or a CSV with the columns time and watts"
            )
        for row in rows:
            try:
                sample = _seconds(row[time]), float(row[watts])
            except (ValueError, IndexError):
                raise UnreadableInputError(
                    f"{path}:{rows.line_num}: no time and watts in this line"
                ) from None
            yield sample


def _seconds(text: str) -> float:
    """Seconds since 1970."""
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.astimezone()).astimezone(UTC).timestamp()
