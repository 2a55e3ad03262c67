"""Figures of several Records that should not be as alike as they are: copied, or derived from one another."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from accelmark.audit.finding import Finding
from accelmark.audit.rows import (
    board_family,
    count,
    digits,
    family,
    grouped,
    ids,
    listed,
    natural,
    parameters,
    scheduled,
)
from accelmark.record import Record

#: Digits that have to agree in all figures of a row together (zeros at the ends not counted): with four, one
#: pair of rows in ten thousand agrees by chance.
ROW_DIGITS = 4
#: The same for a column, and how many of its rows have to agree. A latency of two digits is easily the same
#: in two tables, and the latencies of one slice and of seven are nearly the same, so one long figure is not
#: enough.
COLUMN_DIGITS = 9
COLUMN_ROWS = 4
#: And of the rows that both tables have, this share.
COLUMN_SHARE = 1 / 3
#: In tables beyond this number with the same figure in the same row, it is common and tells nothing.
COMMON = 20
#: Digits that the smaller and the larger figure need: with as many, one pair in a thousand is an exact
#: multiple by chance (scaling that is known to a tenth beforehand). With one less of the larger it is one in
#: a hundred, which happens among the rows of a large table.
MULTIPLE_DIGITS = (4, 5)
#: Parameters that say how large the load is: rows of one table differ in them.
LOADS = ("streams", "concurrent_requests", "client_batch_size", "dynamic_batch_size")


def _figures(record: Record) -> dict[str, float]:
    """Every figure of a Record, by name."""
    metrics = record.metrics
    found = {
        "throughput": metrics.throughput.value if metrics.throughput else None,
        "efficiency": metrics.efficiency.value if metrics.efficiency else None,
        "time to train": metrics.time_to_train_min,
        "time to first audio": metrics.time_to_first_audio_s,
        "time between chunks": metrics.time_between_chunks_s,
        "energy": metrics.energy_j,
        "power": metrics.power_w,
    }
    if metrics.latency_ms:
        for name in ("mean", "p50", "p90", "p99"):
            found[f"latency ({name})"] = getattr(metrics.latency_ms, name)
    return {name: value for name, value in found.items() if value is not None}


def _informative(record: Record) -> dict[str, float]:
    """The figures that were found out: not a throughput that follows the load's schedule."""
    found = _figures(record)
    if scheduled(record):
        found.pop("throughput", None)
    return found


def repeated_figures(records: Sequence[Record]) -> Iterator[Finding]:
    """All figures of a row, two or more, again in one of the same network and board under other conditions.

    One figure alone may be the same by chance or by a common target rate, and is not looked at; nor are
    figures with few digits. A note where only the accuracy target differs. The later row in the order of ids
    is called the repetition, since either may be the original.
    """

    def key(record: Record) -> tuple[object, ...] | None:
        figures = _figures(record)
        if len(figures) < 2 or sum(map(digits, _informative(record).values())) < ROW_DIGITS:
            return None
        return (record.job.network, record.job.size, board_family(record), tuple(figures.items()))

    for alike in grouped(records, key).values():
        first, *others = alike
        repeats = [r for r in others if _conditions(r) != _conditions(first)]
        if not repeats:
            continue
        what = " and ".join(f"{name} {value:g}" for name, value in _figures(first).items())
        differing = sorted({name for r in repeats for name in _differing(first, r)})
        names = ids(repeats)
        # A run that reaches the higher of two targets may be entered for the lower one too.
        one_run = differing == ["accuracy target"]
        yield Finding(
            rule="repeated-figures",
            severity="note" if one_run else "warning",
            records=names,
            against=(first.id,),
            expected=f"figures of its own, under another {' and '.join(differing)}",
            found=what,
            message=f"{listed(names)} {'repeats' if len(names) == 1 else 'repeat'} all figures of {first.id} "
            f"under another {' and '.join(differing)}: {what}",
        )


def _conditions(record: Record) -> dict[str, object]:
    job = record.job
    fields = ("framework", "engine", "precision", "batch_size", "accelerators", "nodes", "partition")
    return {
        "scenario": job.scenario,
        **{name.replace("_", " "): getattr(job, name) for name in (*fields, "data", "sequence_length")},
        **{name.replace("_", " "): value for name, value in job.parameters.items()},
        "server": record.system.server,
    }


def _differing(one: Record, other: Record) -> list[str]:
    ours, theirs = _conditions(one), _conditions(other)
    return [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]


class _Cell(NamedTuple):
    """One figure in a table: the label of its row, the name of its column."""

    label: tuple[object, ...]
    column: str


def copied_column(records: Sequence[Record]) -> Iterator[Finding]:
    """A column of one table that stands in another, to the digit, while the rest of the rows differs.

    A table is what shares everything but network and load; its rows are matched by network and by their place
    in the order of the load, since a copied row may have another batch. At least four rows have to agree, in
    nine digits together, and a third of the rows that both have. Says nothing of rates that a schedule sets.
    """
    tables = _tables(records)
    where: dict[tuple[_Cell, float], list[int]] = defaultdict(list)
    for index, table in enumerate(tables):
        for label, record in table.items():
            for column, value in _informative(record).items():
                where[_Cell(label, column), value].append(index)
    agreeing: dict[tuple[int, int, str], list[tuple[object, ...]]] = defaultdict(list)
    for (cell, _), indices in where.items():
        for one, other in itertools.combinations(indices[:COMMON], 2):
            if _figures(tables[one][cell.label]) != _figures(tables[other][cell.label]):
                agreeing[one, other, cell.column].append(cell.label)
    for (one, other, column), labels in agreeing.items():
        source, copy = tables[one], tables[other]
        weight = sum(digits(_informative(source[label])[column]) for label in labels)
        common = sum(column in _informative(source[label]) for label in source.keys() & copy.keys())
        if len(labels) < COLUMN_ROWS or weight < COLUMN_DIGITS or len(labels) < COLUMN_SHARE * common:
            continue
        originals, copies = ids(source[label] for label in labels), ids(copy[label] for label in labels)
        yield Finding(
            rule="copied-column",
            severity="warning",
            records=copies,
            against=originals,
            expected=f"a {column} of their own",
            found=f"the same {column} in {len(labels)} rows",
            message=f"{listed(copies)} have the {column} of {listed(originals)} to the digit, while their "
            "other figures differ: the column looks copied, not measured",
        )


def _tables(records: Sequence[Record]) -> list[dict[tuple[object, ...], Record]]:
    """Records by table, and in each by network and place in the order of the load.

    Rows of equal load have no place, and are left out.
    """

    def key(record: Record) -> tuple[object, ...]:
        job = record.job
        return (
            record.source,
            record.system.name,
            record.system.accelerator.name,
            family(job.scenario),
            job.precision,
            job.engine,
            job.accelerators,
            job.nodes,
            job.partition,
            parameters(record, "task", *LOADS),
            tuple(
                sorted(
                    (name, repr(value)) for name, value in record.conditions.items() if name == "power_run"
                )
            ),
        )

    def series(record: Record) -> tuple[object, ...]:
        job = record.job
        return (job.network, job.size, job.framework, str(job.parameters.get("task")), job.sequence_length)

    tables = []
    for rows in grouped(records, key).values():
        table: dict[tuple[object, ...], Record] = {}
        for name, members in grouped(rows, series).items():
            loads = [_load(record) for record in members]
            if len(set(loads)) == len(loads):
                for place, (_, record) in enumerate(
                    sorted(zip(loads, members, strict=True), key=lambda p: p[0])
                ):
                    table[*name, place] = record
        tables.append(table)
    return sorted((t for t in tables if t), key=lambda t: min(natural(record.id) for record in t.values()))


def _load(record: Record) -> tuple[int, ...]:
    return (
        count(record.job.batch_size) or 0,
        *(count(record.job.parameters.get(name)) or 0 for name in LOADS),
    )


def exact_multiple(records: Sequence[Record]) -> Iterator[Finding]:
    """A throughput that is another's divided by the number of accelerators, exactly: derived, not measured.

    Compares equal networks, frameworks, precisions, batches and parameters on the same kind of board. Figures
    of at least four and five digits are asked for. Says nothing of rates that a schedule sets.
    """

    def key(record: Record) -> tuple[object, ...] | None:
        job, metric = record.job, record.metrics.throughput
        if metric is None or scheduled(record) or count(job.accelerators) is None:
            return None
        return (
            board_family(record),
            job.network,
            job.size,
            family(job.scenario),
            job.framework,
            job.engine,
            job.precision,
            job.batch_size,
            job.partition,
            job.sequence_length,
            parameters(record),
            metric.unit,
        )

    for group in grouped(records, key).values():
        counts = sorted({record.job.accelerators for record in group})
        by_figure = grouped(group, lambda r: (r.job.accelerators, f"{_rate(r):.12g}"))
        for record in group:
            if digits(_rate(record)) < MULTIPLE_DIGITS[0]:
                continue
            for larger in counts:
                times, rest = divmod(larger, record.job.accelerators)
                if times < 2 or rest or digits(_rate(record) * times) < MULTIPLE_DIGITS[1]:
                    continue
                multiples = by_figure.get((larger, f"{_rate(record) * times:.12g}"))
                if multiples:
                    yield _derived(record, multiples, times)
                    break


def _rate(record: Record) -> float:
    metric = record.metrics.throughput
    if metric is None:
        raise ValueError(f"{record.id} has no throughput")
    return metric.value


def _derived(record: Record, multiples: Sequence[Record], times: int) -> Finding:
    against = ids(multiples)
    larger = multiples[0]
    return Finding(
        rule="exact-multiple",
        severity="warning",
        records=(record.id,),
        against=against,
        expected="a figure of its own",
        found=f"{_rate(larger):,.12g} / {times} = {_rate(record):,.12g}",
        message=f"{record.id}: {_rate(record):,.12g} on {record.job.accelerators} is exactly 1/{times} of "
        f"{_rate(larger):,.12g} on {larger.job.accelerators} ({listed(against)}): "
        "one looks derived from the other, not measured",
    )
