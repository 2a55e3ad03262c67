"""A study's arithmetic: normalise to one reference, average over groups of networks, divide the averages.

This is how Lambda's study of August 2021 draws its ratios, made general. Three steps:

1. Each network's throughput is divided by that of one accelerator of the reference, at the reference's
   precision. Images and tokens thereby become comparable numbers.
2. These are averaged over a group of networks, for each system, number of accelerators and precision. The
   study takes the arithmetic mean; the geometric mean is the one that does not depend on the reference
   (Fleming and Wallace, How not to lie with statistics, CACM 29(3), 1986), and the default where no study is
   repeated. A group with a network missing has no average: a mean over fewer networks is another figure.
3. Each system's average is divided by the reference system's, at the same accelerators and precision class.

Intervals come from the delta method on logarithms: with s the derivative of the result's logarithm with
respect to the logarithm of one Record's throughput, and h that Record's half-width relative to its value,
the result's relative half-width is sqrt(sum((s h)^2)), and its interval result * exp(+-half-width). Records
are taken as independent of each other; one that enters several times (the reference) is counted once, with
its derivatives summed. If any Record has no interval, neither has the result.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, geometric_mean
from typing import Literal, NamedTuple

from accelmark.compare.conditions import compare_conditions
from accelmark.errors import UsageError, unknown
from accelmark.record import USABLE, Record, Status, Throughput
from accelmark.text import safe

#: A study speaks of classes: what is the same work for the user, whatever the board makes of it.
CLASSES: Mapping[str, tuple[str, ...]] = {"32-bit": ("fp32", "tf32"), "mixed": ("fp16", "bf16")}
_ORDER = [precision for precisions in CLASSES.values() for precision in precisions]

#: The delta method takes the logarithm as straight over the interval. Beyond a factor of e it says nothing.
MAX_RELATIVE_HALF_WIDTH = 1.0
#: No two accelerators are this far apart; a quotient beyond is a damaged Record, and its sums may overflow.
MAX_QUOTIENT = 1e100

#: In these a figure differs from its reference because the study wants to know what they make.
BY_DESIGN = frozenset({"accelerators", "precision", "partition"})

Groups = Mapping[str, Sequence[str]]
Mean = Literal["geometric", "arithmetic"]
MEANS: tuple[Mean, ...] = ("geometric", "arithmetic")


@dataclass(frozen=True)
class Options:
    """How to average, and which conditions may differ between a figure and its reference."""

    mean: Mean = "geometric"
    allow: tuple[str, ...] = ()


#: As Lambda's study does it: each system runs the largest batch that fits into its memory.
STUDY = Options("arithmetic", ("batch_size",))


class Cell(NamedTuple):
    """What one figure of a study stands for."""

    system: str
    accelerators: int
    precision: str
    network: str
    size: str


class Member(NamedTuple):
    """A network of a group. `size` is `None` where the reference has no size that would do."""

    network: str
    size: str | None

    def __str__(self) -> str:
        return self.network if self.size in (None, "full", "tiny") else f"{self.network}@{self.size}"


@dataclass(frozen=True)
class Group:
    """Networks whose normalised throughputs are averaged. All are `tiny`, or none is."""

    label: str
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Reference:
    """What throughputs are divided by: one accelerator of a system, at an exact precision."""

    system: str
    precision: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.system}:{self.precision}"


@dataclass(frozen=True)
class Value:
    """One network's throughput over the reference's."""

    cell: Cell
    record: Record
    reference_cell: Cell
    reference: Record

    @property
    def value(self) -> float:
        """Throughput over the reference's."""
        return _throughput(self.record).value / _throughput(self.reference).value


@dataclass(frozen=True)
class Row:
    """A group's average on one system. `precision` is the class, or exact where the system has both of it."""

    group: str
    system: str
    accelerators: int
    precision: str
    exact: str
    values: tuple[Value, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mean: Mean = "arithmetic"

    @property
    def average(self) -> float | None:
        """The mean over the group; `None` if a network is missing."""
        if self.missing:
            return None
        values = [value.value for value in self.values]
        return geometric_mean(values) if self.mean == "geometric" else fmean(values)

    @property
    def sensitivities(self) -> dict[Cell, float]:
        """The derivative of log(average) with respect to the logarithm of each Record's throughput."""
        total = math.fsum(value.value for value in self.values)
        result: dict[Cell, float] = {}
        for value in self.values:
            share = 1 / len(self.values) if self.mean == "geometric" else value.value / total
            result[value.cell] = result.get(value.cell, 0.0) + share
            result[value.reference_cell] = result.get(value.reference_cell, 0.0) - share
        return result

    @property
    def records(self) -> dict[Cell, Record]:
        """The Records that the average rests on."""
        return {
            cell: record
            for value in self.values
            for cell, record in ((value.cell, value.record), (value.reference_cell, value.reference))
        }

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval of the average."""
        return _interval(self.average, self.sensitivities, self.records)


@dataclass(frozen=True)
class Ratio:
    """One system's average over the reference system's."""

    numerator: Row
    denominator: Row | None
    denominator_system: str
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps the ratio from being formed."""
        missing = [f"{self.numerator.system}: {reason}" for reason in self.numerator.missing]
        if self.denominator is None:
            missing.append(f"{self.denominator_system}: no Record at these accelerators and this precision")
        elif self.denominator is not self.numerator:
            missing += [f"{self.denominator_system}: {reason}" for reason in self.denominator.missing]
        return tuple(missing)

    @property
    def value(self) -> float | None:
        """The ratio of averages; `None` if either lacks a network."""
        if self.numerator.average is None or self.denominator is None or self.denominator.average is None:
            return None
        return self.numerator.average / self.denominator.average

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio."""
        if self.denominator is None:
            return None
        sensitivities = self.numerator.sensitivities
        for cell, derivative in self.denominator.sensitivities.items():
            sensitivities[cell] = sensitivities.get(cell, 0.0) - derivative
        return _interval(self.value, sensitivities, {**self.numerator.records, **self.denominator.records})


@dataclass(frozen=True)
class Normalised:
    """Every group's average on every system."""

    reference: Reference
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Every ratio to the reference's system; `notes` hold for all of them."""

    reference: Reference
    ratios: tuple[Ratio, ...]
    notes: tuple[str, ...]
    options: Options


@dataclass(frozen=True)
class Selection:
    """One Record for each cell, and what was not taken and why."""

    cells: dict[Cell, Record] = field(default_factory=dict)
    choices: dict[Cell, str] = field(default_factory=dict)
    left_out: dict[Cell, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """All systems with a usable Record, in order of appearance."""
        return tuple(dict.fromkeys(cell.system for cell in self.cells))

    def exact_precisions(self, system: str, precision_class: str) -> list[str]:
        """Which precisions of a class a system has Records of."""
        found = {cell.precision for cell in self.cells if cell.system == system}
        return [precision for precision in CLASSES[precision_class] if precision in found]


def precision_class(precision: str | None) -> str | None:
    """`32-bit`, `mixed`, or `None` for what no study of training speaks of."""
    return next((name for name, members in CLASSES.items() if precision in members), None)


def system_name(record: Record) -> str:
    """The system a Record is of; a partition of an accelerator is a system of its own."""
    partition = record.job.partition
    return f"{record.system.name} ({partition})" if partition else record.system.name


def select(records: Iterable[Record], statuses: Collection[Status] = USABLE) -> Selection:
    """One usable Record for each cell: the newest, and the last read among those without a time."""
    candidates: dict[Cell, list[Record]] = {}
    left_out: dict[Cell, str] = {}
    reasons: dict[str, list[str]] = {}
    for record in records:
        why = _unusable(record, statuses)
        cell = _cell(record)
        if why is not None:
            reasons.setdefault(why, []).append(record.id)
            if record.job.scenario == "training" and precision_class(cell.precision):
                left_out[cell] = why
        else:
            candidates.setdefault(cell, []).append(record)
    # max() keeps the first of equals; reversed, that is the last read.
    cells = {cell: max(reversed(found), key=lambda record: record.when) for cell, found in candidates.items()}
    choices = {
        cell: _choice(cell, candidates[cell], taken)
        for cell, taken in cells.items()
        if len(candidates[cell]) > 1
    }
    notes = tuple(_left_out_note(why, ids) for why, ids in reasons.items())
    return Selection(cells, choices, left_out, notes)


def _cell(record: Record) -> Cell:
    job = record.job
    return Cell(system_name(record), job.accelerators, job.precision or "", job.network, job.size)


def _unusable(record: Record, statuses: Collection[Status]) -> str | None:
    if record.job.scenario != "training":
        return f"the scenario is {record.job.scenario}, not training"
    if record.status not in statuses:
        return f"the status is {record.status.value}"
    if record.metrics.throughput is None:
        return "there is no throughput"
    if precision_class(record.job.precision) is None:
        return f"the precision is {record.job.precision or 'not known'}"
    return None


def _left_out_note(why: str, ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
    return f"left out, because {why}: {len(ids)} Record{'s' if len(ids) > 1 else ''} ({shown})"


def _choice(cell: Cell, found: Sequence[Record], taken: Record) -> str:
    """Say which of several Records for one cell was taken, and in which conditions they differ."""
    first = "the newest" if taken.started_at else "the last read"
    jobs = [record.job.model_dump() for record in found]
    differing = [name for name in jobs[0] if any(job[name] != jobs[0][name] for job in jobs)]
    differ = f"; they differ in {', '.join(differing)}" if differing else ""
    return f"{_describe(cell)} has {len(found)} Records: {first}, {taken.id}, is used{differ}"


def _describe(cell: Cell) -> str:
    return f"{cell.network} {cell.size} on {cell.accelerators}x {cell.system} at {cell.precision}"


def _throughput(record: Record) -> Throughput:
    throughput = record.metrics.throughput
    if throughput is None:
        raise ValueError(f"{record.id} has no throughput, and select() should have left it out")
    return throughput


def _interval(
    result: float | None, sensitivities: Mapping[Cell, float], records: Mapping[Cell, Record]
) -> tuple[float, float] | None:
    if result is None:
        return None
    squares = []
    for cell, record in records.items():
        throughput = _throughput(record)
        if throughput.ci95 is None:
            return None
        low, high = throughput.ci95
        # The wider side: an interval that was cut at zero would otherwise look narrower than it is.
        relative = max(high - throughput.value, throughput.value - low) / throughput.value
        squares.append((sensitivities[cell] * relative) ** 2)
    half = math.sqrt(math.fsum(squares))
    if half > MAX_RELATIVE_HALF_WIDTH:
        return None
    return result * math.exp(-half), result * math.exp(half)


def parse_reference(text: str, selection: Selection) -> Reference:
    """SYSTEM:PRECISION, with an exact precision or a class. The system's name may itself hold colons.

    A precision that the system has no Records of is replaced by the other of its class, with a note.
    """
    system, colon, precision = text.rpartition(":")
    if not colon or not system or not precision:
        raise UsageError(
            f"{safe(text)!r} names no reference; say SYSTEM:PRECISION, such as 'RTX 3090:fp32' or "
            f"'RTX 3090:32-bit'."
        )
    if system not in selection.systems:
        raise unknown("system", system, map(safe, selection.systems))
    if precision not in _ORDER and precision not in CLASSES:
        raise unknown("precision", precision, [*_ORDER, *CLASSES])
    wanted = precision if precision in CLASSES else precision_class(precision)
    single = {cell.precision for cell in selection.cells if cell.system == system and cell.accelerators == 1}
    found = [exact for exact in CLASSES[str(wanted)] if exact in single]
    if not found:
        has = ", ".join(exact for exact in _ORDER if exact in single)
        raise UsageError(
            f"the reference {safe(system)} has no {precision} Records on one accelerator"
            + (f"; it has: {has}." if has else ", and none at another precision; choose another system.")
        )
    if precision in found:
        return Reference(system, precision)
    if precision in CLASSES:
        if len(found) > 1:
            raise UsageError(
                f"{safe(system)} has both {' and '.join(found)} Records; say which is the reference, such as "
                f"'{safe(system)}:{found[0]}'."
            )
        return Reference(system, found[0])
    note = f"{system} has no {precision} Records on one accelerator; its {found[0]} ones are the reference"
    return Reference(system, found[0], (note,))


def default_reference(selection: Selection) -> Reference:
    """The first system that was read with a Record on one accelerator, at 32-bit if it has that."""
    for system in selection.systems:
        single = {c.precision for c in selection.cells if c.system == system and c.accelerators == 1}
        for precision in _ORDER:
            if precision in single:
                note = f"the reference is {system}:{precision}, the first system read; --normalize-to sets it"
                return Reference(system, precision, (note,))
    raise UsageError(
        "there is no usable training Record on one accelerator to normalise to; measure one, or see with "
        "--published what is carried here."
    )


def _is_tiny(size: str | None) -> bool:
    return size == "tiny"


def _reference_sizes(selection: Selection, reference: Reference) -> dict[str, list[str]]:
    """Which sizes of each network the reference has: only these can be normalised."""
    sizes: dict[str, list[str]] = {}
    for cell in selection.cells:
        if cell[:3] == (reference.system, 1, reference.precision):
            sizes.setdefault(cell.network, []).append(cell.size)
    return sizes


def resolve_groups(groups: Groups, selection: Selection, reference: Reference) -> list[Group]:
    """Groups with a size for every network.

    Members are written NETWORK or NETWORK@SIZE; without a size it is the one that the reference has. A group
    of networks that the reference has both tiny and not becomes two groups, since these never mix.
    """
    sizes = _reference_sizes(selection, reference)
    resolved = []
    for name, spelled in groups.items():
        members = [_parse_member(text) for text in spelled]
        explicit = {_is_tiny(member.size) for member in members if member.size}
        if len(explicit) > 1:
            raise UsageError(f"group {safe(name)!r} mixes tiny networks with others: not comparable.")
        scales = explicit or {_is_tiny(size) for m in members for size in sizes.get(m.network, ())} or {False}
        for tiny in sorted(scales):
            chosen = tuple(_choose_size(name, member, sizes, tiny) for member in members)
            if len(set(chosen)) < len(chosen):
                raise UsageError(f"group {safe(name)!r} names a network twice, which would count it twice.")
            resolved.append(Group(f"{name} (tiny)" if tiny else name, chosen))
    return resolved


def _parse_member(text: str) -> Member:
    network, _, size = text.partition("@")
    return Member(network, size or None)


def _choose_size(group: str, member: Member, sizes: Mapping[str, Sequence[str]], tiny: bool) -> Member:
    if member.size:
        return member
    found = [size for size in sizes.get(member.network, ()) if _is_tiny(size) == tiny]
    if len(found) > 1:
        raise UsageError(
            f"group {safe(group)!r}: the reference has {safe(member.network)} in the sizes "
            f"{safe(', '.join(found))}; say which, such as {safe(member.network)}@{safe(found[0])}."
        )
    return Member(member.network, found[0] if found else None)


def default_groups(selection: Selection, reference: Reference, system: str) -> list[Group]:
    """All networks that the reference and a system have in the same size, together and each alone."""
    has = {(cell.network, cell.size) for cell in selection.cells if cell.system == system}
    sizes = _reference_sizes(selection, reference)
    common = [Member(network, size) for network in sizes for size in sizes[network] if (network, size) in has]
    groups = []
    for tiny in (False, True):
        members = tuple(member for member in common if _is_tiny(member.size) == tiny)
        suffix = " (tiny)" if tiny else ""
        if len(members) > 1:
            groups.append(Group(f"all {len(members)} networks{suffix}", members))
        groups += [Group(f"{member}{suffix}", (member,)) for member in members]
    return groups


def normalise(
    records: Iterable[Record],
    reference: str,
    groups: Groups,
    statuses: Collection[Status] = USABLE,
    options: Options = STUDY,
) -> Normalised:
    """Every group's average over the reference, on every system that has one of its networks."""
    selection = select(records, statuses)
    chosen = parse_reference(reference, selection)
    resolved = resolve_groups(groups, selection, chosen)
    rows = tuple(_rows(selection, chosen, resolved, selection.systems, options))
    return Normalised(chosen, rows, (*chosen.notes, *selection.notes))


def ratios(normalised: Normalised, numerators: Collection[str] | None = None) -> tuple[Ratio, ...]:
    """Each row over the reference system's; by default of all systems but the reference's own."""
    chosen = numerators if numerators is not None else _others(normalised)
    return tuple(
        _ratio(row, normalised.rows, normalised.reference) for row in normalised.rows if row.system in chosen
    )


def _others(normalised: Normalised) -> set[str]:
    return {row.system for row in normalised.rows} - {normalised.reference.system}


def compare(
    records: Iterable[Record],
    reference: str | None = None,
    groups: Groups | None = None,
    numerators: Sequence[str] | None = None,
    statuses: Collection[Status] = USABLE,
    options: Options = STUDY,
) -> Comparison:
    """All ratios to the reference's system.

    Without `reference` it is the first system read; without `groups`, for each system the networks that it
    has in common with the reference; without `numerators`, every other system, or the reference's own if
    there is no other.
    """
    selection = select(records, statuses)
    chosen = parse_reference(reference, selection) if reference else default_reference(selection)
    if numerators is None:
        others = [system for system in selection.systems if system != chosen.system]
        numerators = others or [chosen.system]
    shared = None if groups is None else resolve_groups(groups, selection, chosen)
    notes = [*chosen.notes, *selection.notes]
    found: list[Ratio] = []
    for system in numerators:
        resolved = default_groups(selection, chosen, system) if shared is None else shared
        rows = tuple(_rows(selection, chosen, resolved, {system, chosen.system}, options))
        formed = ratios(Normalised(chosen, rows, ()), [system])
        if not formed:
            what = "of the groups" if shared is not None else f"of the same size in common with {chosen}"
            notes.append(f"{system} has no network {what}")
        found += formed
    return Comparison(chosen, tuple(found), tuple(notes), options)


def _rows(
    selection: Selection,
    reference: Reference,
    groups: Iterable[Group],
    systems: Collection[str],
    options: Options,
) -> Iterator[Row]:
    """Rows of these systems: by group, then system in order of appearance, accelerators, precision."""
    cells = [cell for cell in (*selection.cells, *selection.left_out) if cell.system in systems]
    order = {system: place for place, system in enumerate(dict.fromkeys(cell.system for cell in cells))}
    for group in groups:
        networks = {member.network for member in group.members}
        keys = {cell[:3] for cell in cells if cell.network in networks}
        for key in sorted(keys, key=lambda k: (order[k[0]], k[1], _ORDER.index(k[2]))):
            yield _row(selection, reference, group, key, options)


def _row(
    selection: Selection, reference: Reference, group: Group, key: tuple[str, int, str], options: Options
) -> Row:
    system, accelerators, precision = key
    values = []
    missing = []
    notes = []
    for member in group.members:
        found = _value(selection, reference, member, key, options.allow)
        if isinstance(found, str):
            missing.append(f"{member}: {found}")
            continue
        values.append(found)
        used = dict.fromkeys((found.cell, found.reference_cell))
        notes += [selection.choices[cell] for cell in used if cell in selection.choices]
    name = str(precision_class(precision))
    return Row(
        group=group.label,
        system=system,
        accelerators=accelerators,
        precision=precision if len(selection.exact_precisions(system, name)) > 1 else name,
        exact=precision,
        values=tuple(values),
        missing=tuple(missing),
        notes=tuple(notes),
        mean=options.mean,
    )


def _value(
    selection: Selection,
    reference: Reference,
    member: Member,
    where: tuple[str, int, str],
    allow: Collection[str],
) -> Value | str:
    """A network's normalised throughput, or why there is none."""
    if member.size is None:
        return f"no Record of the reference {reference}"
    reference_cell = Cell(reference.system, 1, reference.precision, member.network, member.size)
    cell = Cell(*where, member.network, member.size)
    base = selection.cells.get(reference_cell)
    record = selection.cells.get(cell)
    if record is None:
        if cell in selection.left_out:
            return selection.left_out[cell]
        others = [c.size for c in selection.cells if c[:4] == cell[:4]]
        if others:
            return f"not comparable: size {', '.join(others)}, not {member.size}"
        return "no Record"
    if base is None:
        return f"no Record of the reference {reference}"
    why = _incomparable(record, base, allow)
    return f"not comparable: {why}" if why else Value(cell, record, reference_cell, base)


def _incomparable(record: Record, base: Record, allow: Collection[str]) -> str | None:
    """Why two Records of one network and size are not of the same work, if they are not."""
    conditions = compare_conditions(record, base, {*allow, *BY_DESIGN})
    if conditions.blocking:
        return ", ".join(map(str, conditions.blocking))
    if not 1 / MAX_QUOTIENT < _throughput(record).value / _throughput(base).value < MAX_QUOTIENT:
        return "the throughputs are a factor of more than 1e100 apart"
    return None


def _ratio(row: Row, rows: Sequence[Row], reference: Reference) -> Ratio:
    """A row over the reference system's row of the same group, accelerators and precision class."""
    same_class = [
        other
        for other in rows
        if other.system == reference.system
        and (other.group, other.accelerators) == (row.group, row.accelerators)
        and precision_class(other.exact) == precision_class(row.exact)
    ]
    denominator = next((other for other in same_class if other.exact == row.exact), None)
    notes = list(row.notes)
    if denominator is None and same_class:
        denominator = same_class[0]
        notes.append(f"{row.system} ran {row.exact}, {reference.system} {denominator.exact}")
    if denominator is not None:
        notes += [note for note in denominator.notes if note not in notes]
    return Ratio(row, denominator, reference.system, tuple(notes))
