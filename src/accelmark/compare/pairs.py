"""Records beside others, pair by pair: which are of the same load, and how many times as fast the first is.

A ratio above 1 always means that the first Record is better: faster, fewer minutes, more per watt or price.
Pairs whose conditions differ have no ratio and stay out of every mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from accelmark.compare import spread
from accelmark.compare.conditions import Conditions, Difference, compare_conditions
from accelmark.compare.prices import Prices
from accelmark.compare.spread import Spread
from accelmark.published.rounding import reads_as_printed
from accelmark.record import USABLE, Record, Source, Status

#: How many of the nearest are shown for a Record that nothing is comparable with.
NEAREST = 3

Interval = tuple[float, float]


@dataclass(frozen=True)
class Ratio:
    """One metric of a pair: the first Record's over the second's, or the other way round for a time.

    `spread_of` names whose spread the interval holds: `both`, `first`, `second`, or `neither` (no interval).
    """

    metric: str
    value: float
    ci95: Interval | None
    spread_of: str


@dataclass(frozen=True)
class Pair:
    """Two Records side by side. `ratios` is empty if they are not comparable; the first is the headline."""

    record: Record
    other: Record
    conditions: Conditions
    ratios: tuple[Ratio, ...] = ()
    #: Metrics that are not comparable although the headline is, each with its difference.
    left_out: tuple[tuple[str, Difference], ...] = ()
    #: For a repetition of the same thing: whether both figures are the same as printed.
    agrees: bool | None = None

    @property
    def comparable(self) -> bool:
        """Whether there is a ratio."""
        return bool(self.ratios)

    @property
    def repeats(self) -> bool:
        """Whether both Records are of the same load on the same board, in the same framework."""
        return self.agrees is not None


@dataclass(frozen=True)
class Summary:
    """All comparable pairs together: the geometric mean of their headline ratios, and who won how often.

    A pair is won or lost if its interval lies on one side of 1, else a tie; without an interval it is
    `undecided`. The mean's interval needs one of every pair.
    """

    pairs: int
    geometric_mean: float | None
    ci95: Interval | None
    wins: int
    losses: int
    ties: int
    undecided: int


@dataclass(frozen=True)
class Pairing:
    """The whole comparison.

    `alone` are Records for whose network and scenario the other side has nothing, `unusable` those whose own
    status says that their figures are no results.
    """

    pairs: tuple[Pair, ...]
    alone: tuple[Record, ...]
    unusable: tuple[Record, ...]
    summary: Summary


@dataclass
class _Spreads:
    """Each Record's spread is drawn once, however many pairs it is in."""

    of: Callable[[Record], Spread | None]
    made: dict[str, Spread | None] = field(default_factory=dict)

    def __call__(self, record: Record) -> Spread | None:
        if record.id not in self.made:
            self.made[record.id] = self.of(record)
        return self.made[record.id]


class _Loads:
    """Conditions between Records. Very many Records of one machine share few loads; each is compared once."""

    def __init__(self, allow: Collection[str]) -> None:
        self._allow = allow
        self._loads: dict[str, str] = {}
        self._made: dict[tuple[str, str], Conditions] = {}

    def between(self, record: Record, other: Record) -> Conditions:
        """The conditions, from memory if an equal load was compared with the same Record."""
        if record.id not in self._loads:
            self._loads[record.id] = _load(record)
        key = self._loads[record.id], other.id
        if key not in self._made:
            self._made[key] = compare_conditions(record, other, self._allow)
        return self._made[key]


def _load(record: Record) -> str:
    """All that conditions depend on, as one text."""
    system, throughput = record.system, record.metrics.throughput
    return repr(
        (
            record.job.model_dump_json(exclude={"seed"}),
            record.conditions,
            record.source,
            record.status,
            record.metrics.quality,
            throughput and throughput.unit,
            (system.accelerator.name, system.server, system.container),
        )
    )


def pair_up(
    records: Iterable[Record],
    others: Iterable[Record],
    allow: Collection[str] = (),
    prices: Prices | None = None,
) -> Pairing:
    """Every Record with every comparable one of the others, or else with the nearest that are not.

    The result does not depend on the order in which Records are given.
    """
    shelves: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for other in sorted(others, key=lambda record: record.id):
        shelves[other.job.network, other.job.scenario].append(other)
    spreads = {metric: _Spreads(of) for metric, of in _SPREADS.items()}
    loads = _Loads(allow)
    pairs: list[Pair] = []
    alone, unusable = [], []
    for record in sorted(records, key=lambda record: record.id):
        if record.status not in USABLE:
            unusable.append(record)
            continue
        shelf = [other for other in shelves[record.job.network, record.job.scenario] if other.id != record.id]
        if not shelf:
            alone.append(record)
            continue
        found = [
            _pair(record, other, loads.between(record, other), allow, prices, spreads) for other in shelf
        ]
        close = sorted(found, key=_distance)
        comparable = [pair for pair in close if pair.comparable]
        pairs += comparable or close[:NEAREST]
    return Pairing(
        tuple(pairs),
        tuple(alone),
        tuple(unusable),
        _summary([pair for pair in pairs if pair.comparable], spreads),
    )


def _distance(pair: Pair) -> tuple[int, int, int, str]:
    conditions = pair.conditions
    return (
        len(conditions.blocking),
        len(conditions.lifted) + len(conditions.means),
        len(conditions.not_stated),
        pair.other.id,
    )


def _pair(
    record: Record,
    other: Record,
    conditions: Conditions,
    allow: Collection[str],
    prices: Prices | None,
    spreads: dict[str, _Spreads],
) -> Pair:
    basis = _power_difference(record, other)
    lifted = basis is not None and basis.name in allow
    left_out = (("efficiency", basis),) if basis and not lifted else ()
    if not conditions.comparable:
        return Pair(record, other, conditions, left_out=left_out)
    ratios = [_time_ratio(record, other, spreads), _throughput_ratio(record, other, spreads)]
    if not left_out:
        ratios.append(_efficiency_ratio(record, other))
    if prices is not None:
        ratios.append(_price_ratio(record, other, prices, spreads))
    formed = tuple(ratio for ratio in ratios if ratio is not None)
    agrees = _agrees(record, other) if formed and _same_means(conditions) else None
    return Pair(record, other, conditions, formed, left_out, agrees)


def _power_difference(record: Record, other: Record) -> Difference | None:
    if not (record.metrics.efficiency and other.metrics.efficiency):
        return None
    bases = [each.metrics.power_basis or "unknown" for each in (record, other)]
    return Difference("power_basis", *bases) if bases[0] != bases[1] else None


def _same_means(conditions: Conditions) -> bool:
    return not conditions.means and not conditions.lifted


def _minutes(record: Record) -> float | None:
    return record.metrics.time_to_train_min


def _rate(record: Record) -> float | None:
    return record.metrics.throughput.value if record.metrics.throughput else None


#: How sure a Record's figure is, by metric.
_SPREADS: dict[str, Callable[[Record], Spread | None]] = {
    "throughput": spread.throughput,
    "time_to_train_min": spread.time_to_train,
}


def _time_ratio(record: Record, other: Record, spreads: dict[str, _Spreads]) -> Ratio | None:
    ours, theirs = _minutes(record), _minutes(other)
    if ours is None or theirs is None:
        return None
    # Fewer minutes are better: the ratio is of speeds.
    return _formed("time_to_train_min", theirs / ours, record, other, spreads)


def _throughput_ratio(record: Record, other: Record, spreads: dict[str, _Spreads]) -> Ratio | None:
    ours, theirs = _rate(record), _rate(other)
    if ours is None or theirs is None:
        return None
    return _formed("throughput", ours / theirs, record, other, spreads)


def _formed(metric: str, value: float, record: Record, other: Record, spreads: dict[str, _Spreads]) -> Ratio:
    """A ratio with its interval; a side without a spread counts as exact, and `spread_of` says which."""
    first, second = (spreads[metric](each) for each in (record, other))
    parts = {record.id: (1.0, first), other.id: (-1.0, second)}
    known = {name: (power, drawn) for name, (power, drawn) in parts.items() if drawn is not None}
    if not known:
        return Ratio(metric, value, None, "neither")
    interval = spread.interval(value, known)
    of = "both" if first and second else "first" if first else "second"
    return Ratio(metric, value, interval, of if interval else "neither")


def _efficiency_ratio(record: Record, other: Record) -> Ratio | None:
    ours, theirs = record.metrics.efficiency, other.metrics.efficiency
    if ours is None or theirs is None or ours.unit != theirs.unit or theirs.value <= 0:
        return None
    return Ratio("efficiency", ours.value / theirs.value, None, "neither")


def _price_ratio(record: Record, other: Record, prices: Prices, spreads: dict[str, _Spreads]) -> Ratio | None:
    ratio = _throughput_ratio(record, other, spreads)
    ours, theirs = prices.of(record), prices.of(other)
    if ratio is None or ours is None or theirs is None:
        return None
    factor = theirs / ours
    interval = None if ratio.ci95 is None else (ratio.ci95[0] * factor, ratio.ci95[1] * factor)
    return Ratio("throughput_per_price", ratio.value * factor, interval, ratio.spread_of)


def _agrees(record: Record, other: Record) -> bool:
    """Whether every figure that both have is the same, as far as either is printed."""
    figures = [
        (_minutes(record), _minutes(other)),
        (_rate(record), _rate(other)),
        *(
            [(record.metrics.efficiency.value, other.metrics.efficiency.value)]
            if record.metrics.efficiency and other.metrics.efficiency
            else []
        ),
    ]
    return all(
        _same_figure(record, ours, other, theirs)
        for ours, theirs in figures
        if ours is not None and theirs is not None
    )


def _same_figure(record: Record, ours: float, other: Record, theirs: float) -> bool:
    if other.source is Source.PUBLISHED and reads_as_printed(other, theirs, ours):
        return True
    if record.source is Source.PUBLISHED and reads_as_printed(record, ours, theirs):
        return True
    return ours == theirs


def _summary(pairs: Sequence[Pair], spreads: dict[str, _Spreads]) -> Summary:
    headlines = [pair.ratios[0] for pair in pairs]
    sides = [_side(ratio.ci95) for ratio in headlines]
    mean = interval = None
    if headlines:
        mean = math.exp(math.fsum(math.log(ratio.value) for ratio in headlines) / len(headlines))
        if all(ratio.ci95 for ratio in headlines):
            interval = spread.interval(mean, _shares(pairs, spreads))
    return Summary(
        pairs=len(pairs),
        geometric_mean=mean,
        ci95=interval,
        wins=sides.count("win"),
        losses=sides.count("loss"),
        ties=sides.count("tie"),
        undecided=sides.count("undecided"),
    )


def _shares(pairs: Sequence[Pair], spreads: dict[str, _Spreads]) -> dict[str, tuple[float, Spread]]:
    """Each Record's power in the mean of all pairs; one that is in several pairs moves them together."""
    shares: dict[str, tuple[float, Spread]] = {}
    for pair in pairs:
        metric = pair.ratios[0].metric
        for record, power in ((pair.record, 1 / len(pairs)), (pair.other, -1 / len(pairs))):
            drawn = spreads[metric](record)
            if drawn is not None:
                name = f"{metric} {record.id}"
                shares[name] = (shares[name][0] + power if name in shares else power, drawn)
    return shares


def _side(interval: Interval | None) -> str:
    if interval is None:
        return "undecided"
    return "win" if interval[0] > 1 else "loss" if interval[1] < 1 else "tie"


@dataclass(frozen=True)
class Verdict:
    """What a guard says of a pair: `below` the bound, `above` or at it, or `inconclusive`, and why."""

    pair: Pair
    outcome: str
    why: str


def guard(pairing: Pairing, bound: float) -> list[Verdict]:
    """Whether each comparable pair's headline ratio is below a bound: only if its whole interval is."""
    return [_verdict(pair, bound) for pair in pairing.pairs if pair.comparable]


def _verdict(pair: Pair, bound: float) -> Verdict:
    ratio = pair.ratios[0]
    noisy = [each.id for each in (pair.record, pair.other) if each.status == Status.NOISY]
    if noisy:
        return Verdict(pair, "inconclusive", f"{', '.join(noisy)} is noisy")
    if ratio.ci95 is None:
        return Verdict(pair, "inconclusive", "the ratio has no interval")
    if ratio.ci95[1] < bound:
        return Verdict(pair, "below", f"the interval ends at {ratio.ci95[1]:.4g}")
    return Verdict(pair, "above", f"the interval reaches {ratio.ci95[1]:.4g}")
