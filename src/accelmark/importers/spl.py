"""The log of a power meter as MLPerf keeps it (`spl.txt`, by SPEC's PTDaemon): one sample a second.

    Time,03-15-2021 22:42:12.005,Watts,435.900000,Volts,206.800000,Amps,2.198000,PF,0.959200,Mark,...

Watts are of the whole system at its supply. The log begins before the measured period and ends after it, so
its average is not the run's: idle time lowers it by some percent, by up to a third where loading takes long.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from accelmark.importers import loadgen
from accelmark.importers.lines import lines

#: Seconds without a sample after which an average no longer stands for the period: 1 % of ten minutes, the
#: shortest run that the rules allow, is 6 s.
MAX_GAP_S = 5.0

# To the minute, seconds, milliseconds, watts, and the comma after these: a line cut inside them is no sample.
_SAMPLE = re.compile(
    rb"Time,([0-9-]{10} [0-9:]{6})([0-5][0-9])\.([0-9]{3}),Watts,"
    rb"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?|-?inf|-?nan),",
    re.IGNORECASE,
)
_START = datetime(1970, 1, 1)


@dataclass(frozen=True)
class PowerLog:
    """What a log says of a period.

    `mean_w` is the mean of the samples strictly inside the period, as MLPerf defines it, or `None` and `why`.
    `whole_w` is the mean over the whole log. `doubts` name lines that were passed over.
    """

    mean_w: float | None
    samples: int
    whole_w: float | None
    why: str | None = None
    doubts: tuple[str, ...] = ()


class _Mean:
    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


class _Named:
    """Lines of one kind that were passed over: how many, and the first."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.count = 0
        self.first = 0

    def add(self, line: int) -> None:
        self.first = self.first or line
        self.count += 1

    def words(self) -> list[str]:
        if not self.count:
            return []
        return [f"power log: {self.count} {self.what}, the first in line {self.first}"]


def read(path: Path, period: tuple[datetime, datetime] | None) -> PowerLog:
    """The mean power over a period, in constant memory. Raises `OSError`.

    `period` must be by the log's clock and in its zone; without one there is no mean.
    """
    begin, end = (_milliseconds(period[0]), _milliseconds(period[1])) if period else (0, 0)
    inside, whole = _Mean(), _Mean()
    foreign = _Named("lines that are no sample")
    unusable = _Named("samples without a positive number of watts")
    back = _Named("steps back in time")
    minutes = _Minutes()
    latest = longest = 0
    last_inside = begin
    for number, line in lines(path):
        match = _SAMPLE.match(line)
        minute = minutes.of(match[1]) if match else None
        if match is None or minute is None:
            foreign.add(number)
            continue
        time = minute + int(match[2]) * 1000 + int(match[3])
        if time < latest:
            back.add(number)
        latest = time
        watts = float(match[4])
        if not 0 < watts < math.inf:
            unusable.add(number)
            continue
        whole.add(watts)
        if begin < time < end:
            inside.add(watts)
            # Samples that are out of order only make a gap look longer than it is.
            longest = max(longest, time - last_inside)
            last_inside = max(last_inside, time)
    longest = max(longest, end - last_inside)
    why = _why(period, inside.count, longest / 1000)
    return PowerLog(
        mean_w=None if why else inside.value,
        samples=inside.count,
        whole_w=whole.value,
        why=why,
        doubts=(*foreign.words(), *unusable.words(), *back.words()),
    )


class _Minutes:
    """Milliseconds since 1970 of a minute as the log writes it; it writes the same one sixty times."""

    def __init__(self) -> None:
        self.text = b""
        self.value: int | None = None

    def of(self, text: bytes) -> int | None:
        if text != self.text:
            time = loadgen.clock(f"{text.decode('ascii')}00.000")
            self.text, self.value = text, _milliseconds(time) if time else None
        return self.value


def _milliseconds(time: datetime) -> int:
    return (time - _START) // timedelta(milliseconds=1)


def _why(period: tuple[datetime, datetime] | None, samples: int, gap_s: float) -> str | None:
    if period is None:
        return "the measured period is not known: no power_begin and power_end in the detail file"
    if not samples:
        return "no sample of the power log lies in the measured period; the clocks may be of different zones"
    if gap_s > MAX_GAP_S:
        return f"the power log has no sample for {gap_s:.1f} s of the measured period"
    return None
