"""What LoadGen, MLPerf's load generator, writes about a run.

`mlperf_log_summary.txt` has the result: a headline figure and a verdict, statistics, the settings, and as its
last line the number of errors. Figures are taken from there, since the floats of `mlperf_log_detail.txt` are
rounded to six digits. Of the detail file only what the summary lacks is read: LoadGen's version, and when the
measured period began and ended by the host's clock.

Wordings changed over the rounds. The figure of Server is the scheduled rate, and the completed one where
LoadGen counts tokens; each is printed among the additional statistics in the other case. MultiStream's was a
number of samples per query until v1.0 and is a latency since.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from accelmark.importers.lines import lines, text
from accelmark.record import Latency

_RESULTS, _STATISTICS, _SETTINGS = "MLPerf Results Summary", "Additional Stats", "Test Parameters Used"
_TITLES = (_RESULTS, _STATISTICS, _SETTINGS)

#: LoadGen's names of the scenarios, without case and spaces, and ours.
SCENARIOS = {
    "offline": "offline",
    "server": "server",
    "singlestream": "single-stream",
    "multistream": "multi-stream",
}
_RATES = {
    "offline": ("Samples per second",),
    "server": ("Scheduled samples per second", "Completed samples per second"),
}
SAMPLES_PER_QUERY = "Samples per query"
#: "90th percentile latency (ns)", or "90.00 percentile latency (ns)" as among the statistics.
_PERCENTILE = re.compile(r"([0-9]{1,2})(?:\.([0-9]{2})|th)? percentile latency \(ns\)")
_PERCENTILES = {"50": "p50", "90": "p90", "95": "p95", "97": "p97", "99": "p99", "99.9": "p99_9"}
_EXTREMES = {"Min latency (ns)": "min", "Mean latency (ns)": "mean", "Max latency (ns)": "max"}
#: Share of the samples that lie below each percentile, for bounds on the mean.
_SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p97": 0.97, "p99": 0.99, "p99_9": 0.999}

# ASCII only: float() would also take "1_000" and other scripts' digits, which LoadGen does not write.
_FIGURE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[+-][0-9]{2})?")
_WHOLE = re.compile(r"[0-9]{1,18}")
_ERRORS = re.compile(r"(No|[0-9]{1,18}) errors? encountered", re.IGNORECASE)
#: LoadGen's lines are short; a longer one was not written by it.
_MAX_LINE = 300
#: A summary has about ten fields a section; what has many more is something else.
_MAX_FIELDS = 100

_DETAIL_KEY = re.compile(rb'"key": ?"(loadgen_version|power_begin|power_end)"')
_CLOCK = re.compile(
    r"([0-9]{2})-([0-9]{2})-([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{3})", re.ASCII
)


@dataclass(frozen=True)
class Headline:
    """The figure that a run is known by: its wording, its value in the wording's unit, where it stands."""

    wording: str
    value: float
    line: int
    row: str

    @property
    def is_latency(self) -> bool:
        """Whether it is a percentile of the latency, in nanoseconds."""
        return _PERCENTILE.fullmatch(self.wording) is not None


@dataclass(frozen=True)
class LoadgenSummary:
    """One `mlperf_log_summary.txt`.

    `scenario` is a name of `job.SCENARIOS`, or `None` if there is none that is known. `whole` means that no
    part is missing, from the title to the count of errors; of a summary that is not, no figure should be
    used. `valid` is LoadGen's own verdict, `None` without one; `unmet` are its reasons against it, errors
    included. `twice` names fields of the result that are there twice and differ. `no_headline` says why
    there is no `headline`. `latency_ms` leaves out what contradicts the rest, and `doubts` name it.
    """

    scenario: str | None
    mode: str | None
    whole: bool
    valid: bool | None
    unmet: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    headline: Headline | None = None
    no_headline: str | None = None
    latency_ms: Latency | None = None
    target_latency_ns: int | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadgenDetail:
    """What is used of one `mlperf_log_detail.txt`. `period` is by the clock and in the zone of the host."""

    version: str | None = None
    period: tuple[datetime, datetime] | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Field:
    value: str
    line: int
    row: str


@dataclass
class _Lines:
    """The lines of a summary, by section and by what stands before the colon."""

    sections: dict[str, dict[str, _Field]] = field(default_factory=dict)
    recommendations: list[str] = field(default_factory=list)
    #: Fields that are there twice and differ.
    twice: list[str] = field(default_factory=list)
    errors: int | None = None
    _section: str | None = None
    _recommending: bool = False
    _per_sample: bool = False

    def add(self, number: int, line: str) -> None:
        stripped = line.strip()
        if stripped in _TITLES:
            self._section = stripped
            self.sections.setdefault(stripped, {})
            self._recommending = self._per_sample = False
        elif match := _ERRORS.match(stripped):
            self.errors = 0 if match[1] in ("No", "no") else int(match[1])
        elif self._recommending and line.startswith((" * ", "   ")):
            if len(self.recommendations) < 10:
                self.recommendations.append(stripped.removeprefix("* "))
        elif self._section and ":" in line:
            self._field(self.sections[self._section], number, line)

    def _field(self, fields: dict[str, _Field], number: int, line: str) -> None:
        label, _, value = (part.strip() for part in line.partition(":"))
        self._recommending = label == "Recommendations"
        if label == "Per-sample latency":
            # MultiStream until v1.0: the same labels again, for samples instead of queries.
            self._per_sample = True
        if self._per_sample or len(fields) >= _MAX_FIELDS:
            return
        found = fields.setdefault(label, _Field(value, number, line))
        if found.value != value and label not in self.twice:
            self.twice.append(label)

    def get(self, section: str, label: str) -> _Field | None:
        return None if label in self.twice else self.sections.get(section, {}).get(label)

    def value(self, section: str, label: str) -> str | None:
        found = self.get(section, label)
        return found.value if found else None


def scenario(name: str) -> str | None:
    """Our name of a scenario, from LoadGen's or a folder's: `single-stream` for `SingleStream`."""
    return SCENARIOS.get("".join(name.casefold().split()).replace("-", "").replace("_", ""))


def read_summary(path: Path) -> LoadgenSummary | None:
    """Read `mlperf_log_summary.txt`; `None` if it is no summary of LoadGen's. Raises `OSError`."""
    found = _Lines()
    for number, line in lines(path):
        if len(line) <= _MAX_LINE:
            found.add(number, text(line))
    if _RESULTS not in found.sections:
        return None
    verdict = {"VALID": True, "INVALID": False}.get(found.value(_RESULTS, "Result is") or "")
    unmet = _unmet(found)
    name = scenario(found.value(_RESULTS, "Scenario") or "")
    headline, no_headline = _headline(found, name)
    count = _samples(found) if name == "offline" else None
    latency, doubts = _latency(found, headline, count)
    if headline and latency and not _rate_is_right(headline.value, latency):
        headline, no_headline = None, "the rate is not samples_per_query over the longest latency"
    target = found.value(_SETTINGS, "target_latency (ns)")
    return LoadgenSummary(
        scenario=name,
        mode=found.value(_RESULTS, "Mode"),
        whole=all(title in found.sections for title in _TITLES) and found.errors is not None,
        valid=None if verdict is None else verdict and not unmet,
        unmet=unmet,
        twice=tuple(label for label in found.twice if label in found.sections[_RESULTS]),
        headline=headline,
        no_headline=no_headline,
        latency_ms=latency,
        target_latency_ns=int(target) if target and _WHOLE.fullmatch(target) else None,
        doubts=doubts,
    )


def _unmet(found: _Lines) -> tuple[str, ...]:
    """Every condition of validity that LoadGen calls not met, and what it recommends."""
    fields = found.sections[_RESULTS]
    # "Skipped": the count of queries does not matter where the longest duration is not enforced.
    conditions = [
        f"{label}: {condition.value}"
        for label, condition in fields.items()
        if label.endswith(" satisfied") and condition.value.casefold() not in ("yes", "skipped")
    ]
    errors = [f"errors counted by LoadGen: {found.errors}"] if found.errors else []
    return (*conditions, *found.recommendations, *errors)


def _headline(found: _Lines, name: str | None) -> tuple[Headline | None, str | None]:
    """The headline figure, or `None` and why there is none."""
    if name is None:
        return None, "the scenario is not known"
    fields = found.sections[_RESULTS]
    wordings = [label for label in fields if _is_headline(label, name)]
    if len(wordings) != 1:
        return None, "two headline figures" if wordings else "no headline figure in a wording that is known"
    figure = found.get(_RESULTS, wordings[0])
    if figure is None:
        return None, "two headline figures"
    pattern = _FIGURE if name in _RATES else _WHOLE
    value = float(figure.value) if pattern.fullmatch(figure.value) else 0.0
    if value <= 0:
        return None, "the headline figure is no positive number"
    return Headline(wordings[0], value, figure.line, figure.row), None


def _is_headline(label: str, name: str) -> bool:
    if name in _RATES:
        return label in _RATES[name]
    return _PERCENTILE.fullmatch(label) is not None or (name == "multi-stream" and label == SAMPLES_PER_QUERY)


def _percentile(label: str) -> str | None:
    """The field of `Latency` that a label means."""
    match = _PERCENTILE.fullmatch(label)
    if not match:
        return None
    return _PERCENTILES.get(match[1] + (f".{match[2]}".rstrip("0").rstrip(".") if match[2] else ""))


def _samples(found: _Lines) -> int | None:
    """The samples of an Offline run, which is one query."""
    count = found.value(_SETTINGS, "samples_per_query")
    return (int(count) or None) if count and _WHOLE.fullmatch(count) else None


def _rate_is_right(rate: float, latency: Latency) -> bool:
    """Hold an Offline rate against its definition: all samples, sent at once, over the time of the last.

    It cannot be told, and so is right, where the count or the longest latency is missing.
    """
    if not latency.n or not latency.max:
        return True
    # LoadGen prints six digits.
    return math.isclose(latency.n / latency.max * 1e3, rate, rel_tol=1e-5)


def _latency(
    found: _Lines, headline: Headline | None, count: int | None
) -> tuple[Latency | None, tuple[str, ...]]:
    """The latencies of samples (MultiStream: of queries), and what was left out of them."""
    doubts = []
    values: dict[str, int] = {}
    for label, statistic in found.sections.get(_STATISTICS, {}).items():
        name = _EXTREMES.get(label) or _percentile(label)
        if name is None:
            continue
        if label in found.twice:
            doubts.append(f"{label} is there twice and differs")
        elif not _WHOLE.fullmatch(statistic.value) or not int(statistic.value):
            doubts.append(f"{label} is no positive number")
        else:
            values[name] = int(statistic.value)
    if headline and headline.is_latency and (name := _percentile(headline.wording)):
        if values.get(name, headline.value) != headline.value:
            doubts.append(f"{headline.wording} differs between the result and the statistics")
            return None, tuple(doubts)
        values[name] = int(headline.value)
    in_order = [values[name] for name in ("min", *_SHARES, "max") if name in values]
    if in_order != sorted(in_order):
        return None, (*doubts, "the latencies are not in the order of their percentiles")
    if not _mean_is_possible(values, count):
        doubts.append("the mean latency contradicts the percentiles and is left out")
        del values["mean"]
    if not values:
        return None, tuple(doubts)
    milliseconds = {name: value / 1e6 for name, value in values.items()}
    return Latency.model_validate({**milliseconds, "n": count}), tuple(doubts)


def _mean_is_possible(values: dict[str, int], count: int | None) -> bool:
    """Whether the mean lies between the means of the fastest and the slowest samples with these percentiles.

    It cannot be told, and so is possible, where one of the figures is missing. In Offline runs of tens of
    millions of samples LoadGen's sum of nanoseconds overflows 64 bits, and its mean is far too small.
    """
    if not {"mean", "min", "max", *_SHARES} <= set(values):
        return True
    edges = [0.0, *_SHARES.values(), 1.0]
    shares = [upper - lower for lower, upper in itertools.pairwise(edges)]
    points = [values["min"], *(values[name] for name in _SHARES), values["max"]]
    lowest = sum(share * point for share, point in zip(shares, points[:-1], strict=True))
    highest = sum(share * point for share, point in zip(shares, points[1:], strict=True))
    if count and count * highest >= 2**64:
        return False
    # LoadGen divides whole numbers, and the shares here are rounded.
    return lowest * (1 - 1e-9) - 1 <= values["mean"] <= highest * (1 + 1e-9)


def read_detail(path: Path) -> LoadgenDetail:
    """Read what is used of `mlperf_log_detail.txt`, in constant memory. Raises `OSError`."""
    values: dict[str, str] = {}
    doubts = []
    for number, line in lines(path):
        match = _DETAIL_KEY.search(line, 0, 100)
        if not match or not line.startswith(b":::MLLOG "):
            continue
        key = match[1].decode()
        value = _logged(line, key)
        if value is None:
            doubts.append(f"line {number} is damaged: {key}")
        elif values.setdefault(key, value) != value:
            doubts.append(f"{key} is there twice and differs")
        if len(doubts) > 10:
            break
    if any(key in doubt for doubt in doubts for key in ("power_begin", "power_end")):
        return LoadgenDetail(values.get("loadgen_version"), None, tuple(doubts))
    begin, end = clock(values.get("power_begin", "")), clock(values.get("power_end", ""))
    return LoadgenDetail(
        version=values.get("loadgen_version"),
        period=(begin, end) if begin and end and begin < end else None,
        doubts=tuple(doubts),
    )


def _logged(line: bytes, key: str) -> str | None:
    try:
        entry = json.loads(text(line).removeprefix(":::MLLOG "))
    except (ValueError, RecursionError):
        return None
    value = entry.get("value") if isinstance(entry, dict) and entry.get("key") == key else None
    return value if isinstance(value, str) else None


def clock(stamp: str) -> datetime | None:
    """A time as LoadGen and the power meter's log write it: `03-15-2021 22:42:27.062`, without a zone."""
    match = _CLOCK.fullmatch(stamp)
    if not match:
        return None
    month, day, year, hour, minute, second, millisecond = (int(part) for part in match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, millisecond * 1000)
    except ValueError:
        return None
