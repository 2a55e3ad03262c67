"""Reading Records for the rules: figures with their rounding, whole numbers, orders, groups."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from accelmark.job import Scalar
from accelmark.published.rounding import printed_half_unit
from accelmark.record import Record

Key = TypeVar("Key", bound=Hashable)

#: No batch, stream count or number of accelerators is larger; beyond it, arithmetic in floats would fail.
LARGEST_COUNT = 10**12
#: Load of a speech service whose clients send audio no faster than it would be spoken.
PACED = "real-time paced"
_DIGITS = re.compile(r"([0-9]+)", re.ASCII)
_MEMORY = re.compile(r"[- ][0-9]+ ?GB$", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """A figure, and the least and the most that its rounding allows."""

    value: float
    low: float
    high: float


def span(record: Record, value: float) -> Span:
    """A figure of a Record with its rounding; one that was not printed has none."""
    half = printed_half_unit(record, value)
    return Span(value, value - half, value + half)


def throughput(record: Record) -> Span | None:
    """The throughput, if there is one."""
    metric = record.metrics.throughput
    return span(record, metric.value) if metric else None


def mean_latency(record: Record) -> Span | None:
    """The mean latency in milliseconds, if there is one; percentiles obey no law of averages."""
    latency = record.metrics.latency_ms
    return span(record, latency.mean) if latency and latency.mean is not None else None


def stated(record: Record, name: str) -> Scalar | None:
    """What a Record says of a parameter of the scenario, or of how the source measured."""
    return record.job.parameters.get(name, record.conditions.get(name))


def count(value: Scalar | None) -> int | None:
    """A positive whole number of sane size; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_COUNT:
        return None
    return value


def scheduled(record: Record) -> bool:
    """Whether the load's rate was set, so that throughput shows the setting and not what the system can do.

    LoadGen's server scenario sends at a target rate, paced streams at the speed of speech.
    """
    return record.job.scenario == "server" or stated(record, "load") == PACED


def digits(value: float) -> int:
    """Digits of a figure without zeros at either end: how unlikely it is to occur twice by chance."""
    mantissa = f"{value:.12e}".partition("e")[0]
    return len(mantissa.replace(".", "").lstrip("-").rstrip("0"))


def parameters(record: Record, *without: str) -> tuple[tuple[str, str], ...]:
    """The scenario's parameters in an order of their own, as something to group by."""
    return tuple(sorted((k, repr(v)) for k, v in record.job.parameters.items() if k not in without))


def family(scenario: str) -> str:
    """Scenarios that run the same step: training is training, to a target or not."""
    return "training" if scenario == "time-to-quality" else scenario


def board_family(record: Record) -> str:
    """The board without the size of its memory: computing, an A100 of 40 GB is one of 80 GB."""
    return _MEMORY.sub("", record.system.accelerator.name)


def grouped(records: Iterable[Record], key: Callable[[Record], Key | None]) -> dict[Key, list[Record]]:
    """Records by a key, in their order; those without one are left out."""
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        found = key(record)
        if found is not None:
            groups[found].append(record)
    return groups


def ids(records: Iterable[Record]) -> tuple[str, ...]:
    """Their ids, each once, in natural order."""
    return tuple(sorted({record.id for record in records}, key=natural))


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Order in which `row/9` comes before `row/10`."""
    return tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text) if part
    )


def listed(names: Sequence[str], most: int = 3) -> str:
    """Ids for a sentence: a few by name, the rest by number."""
    if len(names) <= most:
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{names[0]} to {names[-1]} ({len(names)} rows)"
