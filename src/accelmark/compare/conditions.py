"""Which conditions two Records share: what keeps them from being compared, and what a reader should know.

Three kinds of difference. One in the load or the rules (network, size, batch, precision, a parameter of the
scenario, a footnoted condition) makes a ratio meaningless, unless the user lifts it by name. One in the means
(board, framework, data) is what comparing is for, and is only said. What one side does not state cannot be
checked, and that is said too; a measurement of one's own states everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from accelmark.errors import UsageError
from accelmark.job import Job, Scalar
from accelmark.record import USABLE, Record, Source

#: Lifting these would make a ratio of two different things.
NEVER = ("network", "unit", "status")
#: What says how a Job or its details were chosen, not what is asked of the machine.
HOW_CHOSEN = frozenset(
    {"batch_size_rule", "batch_size_bound", "networks", "over", "matrix_size", "mlperf_id"}
)
#: What a network is used for, a rule book, a part of an accelerator: left unsaid, it is something else.
STRICT = frozenset({"task", "rules", "partition"})
#: Fields of the Job that are part of the load.
LOAD = (
    "network",
    "size",
    "scenario",
    "precision",
    "batch_size",
    "accelerators",
    "partition",
    "sequence_length",
)
#: What the reader should know, and compares for.
MEANS = ("framework", "engine", "data")


@dataclass(frozen=True)
class Difference:
    """A condition by name, with both sides' values as words."""

    name: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        if self.name == "power_basis":
            return f"{self.ours} power ≠ {self.theirs} power"
        return f"{self.name.replace('_', ' ')} {self.ours} ≠ {self.theirs}"


@dataclass(frozen=True)
class Conditions:
    """What stands between two Records: `blocking` forbids a ratio, the others are to be said beside it."""

    blocking: tuple[Difference, ...]
    lifted: tuple[Difference, ...]
    means: tuple[Difference, ...]
    not_stated: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether a ratio means something."""
        return not self.blocking


def compare_conditions(ours: Record, theirs: Record, allow: Collection[str] = ()) -> Conditions:
    """Everything in which two Records differ, `allow` lifting conditions by name."""
    blocking: list[Difference] = []
    lifted: list[Difference] = []
    not_stated: list[str] = []
    for name, mine, other in _load(ours, theirs):
        if mine == other:
            continue
        # A footnoted condition is never silence of one's own measurement: it has no footnotes.
        footnote = name in ours.conditions or name in theirs.conditions
        silent = (mine is None and (footnote or not _states_all(ours))) or (
            other is None and (footnote or not _states_all(theirs))
        )
        if silent and name not in STRICT:
            not_stated.append(name)
            continue
        difference = Difference(name, _word(mine), _word(other))
        (lifted if name in allow else blocking).append(difference)
    means = tuple(
        Difference(name, _word(mine), _word(other))
        for name, mine, other in _means(ours, theirs)
        if mine != other and mine is not None and other is not None
    )
    return Conditions(tuple(blocking), tuple(lifted), means, tuple(not_stated))


def check_allowed(allow: Collection[str], records: Collection[Record]) -> None:
    """A `UsageError` for a condition that cannot be lifted, or that none of the Records has."""
    known = set(LOAD) | {"power_basis", "quality", "network_version"}
    for record in records:
        known |= record.job.parameters.keys() | record.conditions.keys()
    for name in allow:
        if name in NEVER:
            raise UsageError(
                f"--allow {name}: a ratio over different {name}s would mean nothing; leave it out."
            )
        if name not in known:
            raise UsageError(
                f"--allow {name!r} is no condition of these Records; they have: "
                f"{', '.join(sorted(known - set(NEVER)))}."
            )


def _states_all(record: Record) -> bool:
    return record.source == Source.MEASURED


def _load(ours: Record, theirs: Record) -> Iterator[tuple[str, Scalar | None, Scalar | None]]:
    for name in LOAD:
        yield name, getattr(ours.job, name), getattr(theirs.job, name)
    if ours.metrics.throughput and theirs.metrics.throughput:
        yield "unit", ours.metrics.throughput.unit, theirs.metrics.throughput.unit
    if theirs.status not in USABLE:
        yield "status", ours.status.value, theirs.status.value
    versions = ours.job.network_version, theirs.job.network_version
    if None not in versions:
        yield "network_version", *versions
    for name in sorted((ours.job.parameters.keys() | theirs.job.parameters.keys()) - HOW_CHOSEN):
        yield name, _parameter(ours.job, name), _parameter(theirs.job, name)
    for name in sorted((ours.conditions.keys() | theirs.conditions.keys()) - HOW_CHOSEN):
        yield name, ours.conditions.get(name), theirs.conditions.get(name)
    if ours.job.scenario == theirs.job.scenario == "time-to-quality":
        yield "quality", *_reached(ours, theirs)


def _parameter(job: Job, name: str) -> Scalar | None:
    # One step without accumulation is an accumulation of one.
    return job.parameters.get(name, 1 if name == "gradient_accumulation" else None)


def _reached(ours: Record, theirs: Record) -> tuple[str | None, str | None]:
    """The quality that each was trained to, where both name the same metric and neither follows a rule book.

    A rule book fixes the target; there `rules` is the condition.
    """
    if "rules" in ours.job.parameters and "rules" in theirs.job.parameters:
        return None, None
    for mine in ours.metrics.quality:
        for other in theirs.metrics.quality:
            if mine.metric == other.metric:
                values = [quality.value or quality.target for quality in (mine, other)]
                if None not in values:
                    return f"{mine.metric} {values[0]:g}", f"{mine.metric} {values[1]:g}"
    return None, None


def _means(ours: Record, theirs: Record) -> Iterator[tuple[str, str | None, str | None]]:
    yield "accelerator", ours.system.accelerator.name, theirs.system.accelerator.name
    yield "server", ours.system.server, theirs.system.server
    for name in MEANS:
        yield name, getattr(ours.job, name), getattr(theirs.job, name)
    yield "container", ours.system.container, theirs.system.container


def _word(value: Scalar | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
