"""How many accelerators of which kind serve a load, from Records that meet a latency bound.

A Record is of one configuration: some accelerators, or a part of one. A load above its throughput takes
several copies of it, side by side; that they do not slow each other down is an assumption, and is said.
Nothing is taken apart: half of an eight-accelerator system is not half of its throughput.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from accelmark.compare.parts import share
from accelmark.compare.prices import Prices
from accelmark.names import facts
from accelmark.record import USABLE, Record, Status


@dataclass(frozen=True)
class Need:
    """What is to be served: `rate` in the unit of the Records per second, a latency bound in milliseconds."""

    network: str
    scenario: str
    rate: float
    latency_ms: float | None = None
    size: str = "full"


@dataclass(frozen=True)
class Power:
    """Watts of all copies, and what they are of: measured (`system`, `board`), or the boards' limits."""

    watts: float
    of: str


@dataclass(frozen=True)
class Choice:
    """One way to serve the load: `copies` of what the Record measured, on so many accelerators."""

    record: Record
    copies: int
    accelerators: int
    latency: str
    power: Power | None
    price: float | None
    #: The share of the throughput that the load leaves free.
    spare: float
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Choices:
    """All ways, the fewest accelerators first (the cheapest first where prices are known); and the others."""

    found: tuple[Choice, ...]
    rejected: tuple[tuple[Record, str], ...]


def choose(records: Iterable[Record], need: Need, prices: Prices | None = None) -> Choices:
    """Every Record of the network and scenario that meets the bound, as a way to serve the load."""
    found, rejected = [], []
    for record in records:
        if (record.job.network, record.job.scenario, record.job.size) != (
            need.network,
            need.scenario,
            need.size,
        ):
            continue
        latency, why = _meets(record, need.latency_ms)
        if record.status not in USABLE:
            rejected.append((record, f"its status is {record.status.value}"))
        elif record.metrics.throughput is None:
            rejected.append((record, "it has no throughput"))
        elif why is not None:
            rejected.append((record, why))
        else:
            found.append(_choice(record, record.metrics.throughput.value, need.rate, latency, prices))
    found.sort(key=_rank)
    return Choices(tuple(found), tuple(rejected))


def _rank(choice: Choice) -> tuple[float, float, float, str]:
    price = math.inf if choice.price is None else choice.price
    watts = math.inf if choice.power is None else choice.power.watts
    return price, choice.accelerators, watts, choice.record.id


def _meets(record: Record, bound: float | None) -> tuple[str, str | None]:
    """The latency that a figure was reached at, in words, and why it does not meet the bound, or None."""
    stated = record.job.parameters.get("latency_bound_ms")
    if stated is None and record.job.scenario == "server":
        stated = facts.latency_bound_ms(str(record.job.parameters.get("rules")), record.job.network)
    latency = record.metrics.latency_ms
    if isinstance(stated, int | float) and not isinstance(stated, bool):
        words = f"99 % within {stated:g} ms" if record.job.scenario == "server" else f"bound {stated:g} ms"
        return words, _above(float(stated), bound, "it was measured under a bound of")
    for name, words in (("p99", "p99"), ("mean", "mean")):
        value = getattr(latency, name) if latency else None
        if value is not None:
            return f"{words} {value:g} ms", _above(value, bound, f"its {words} latency is")
    return "not stated", None if bound is None else "its latency is not stated"


def _above(value: float, bound: float | None, what: str) -> str | None:
    return f"{what} {value:g} ms" if bound is not None and value > bound else None


def _choice(record: Record, throughput: float, rate: float, latency: str, prices: Prices | None) -> Choice:
    copies = math.ceil(rate / throughput)
    per_accelerator = _copies_on_one(record)
    accelerators = math.ceil(copies / per_accelerator) * record.job.accelerators
    assumptions = []
    if copies > 1:
        what = "systems" if record.job.accelerators > 1 else "accelerators"
        if per_accelerator > 1:
            what = f"parts of an accelerator, {per_accelerator} on each,"
        assumptions.append(
            f"linear scaling: {copies} {what} side by side serve {copies} times as much as one"
        )
    if latency.startswith("mean"):
        assumptions.append(
            "the bound is held against the mean latency; how many answers are later is not known"
        )
    if record.status == Status.NOISY:
        assumptions.append("the Record is noisy")
    price = None
    if prices is not None:
        board = prices.board(record.system.accelerator.name)
        price = None if board is None else board * accelerators
    return Choice(
        record=record,
        copies=copies,
        accelerators=accelerators,
        latency=latency,
        power=_power(record, throughput, rate, accelerators),
        price=price,
        spare=1 - rate / (copies * throughput),
        assumptions=tuple(assumptions),
    )


def _copies_on_one(record: Record) -> int:
    """How many copies of a part of an accelerator fit on it; a part of unknown size is taken to fill it."""
    part = share(record)
    return 1 if part is None else int(1 / part + 1e-9)


def _power(record: Record, throughput: float, rate: float, accelerators: int) -> Power | None:
    """Power at the load: as the Record measured it, or the boards' limits where it measured none."""
    metrics = record.metrics
    if metrics.efficiency is not None and metrics.efficiency.value > 0:
        return Power(rate / metrics.efficiency.value, f"{metrics.power_basis or 'unknown'}, measured")
    if metrics.power_w is not None:
        return Power(metrics.power_w * rate / throughput, f"{metrics.power_basis or 'unknown'}, measured")
    limit = record.system.accelerator.power_limit_w
    known = facts.board(record.system.accelerator.name)
    if limit is None and known is not None:
        limit = known.power_w
    return None if limit is None else Power(float(limit) * accelerators, "boards' limit, not measured")
