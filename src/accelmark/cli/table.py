"""Records on the terminal: as a table for people, as JSON for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from accelmark.record import USABLE, Metrics, Record
from accelmark.text import bar, draws_bars, number, print_notes, print_table, quantity, safe, say

COLUMNS = (
    "network",
    "size",
    "precision",
    "batch",
    "accel.",
    "throughput",
    "unit",
    "n",
    "status",
    "system",
    "note",
)
RIGHT = ("batch", "accel.", "throughput", "n")
#: What a narrow terminal does without, the least important first. Notes stand below the table there.
DROP = ("system", "n", "of largest", "batch", "accel.", "precision", "size", "note")


def row(record: Record) -> list[str]:
    """One Record's cells. What was not measured is blank here and explained in the note."""
    job, throughput = record.job, record.metrics.throughput
    batch = "" if job.batch_size is None else str(job.batch_size)
    if "batch_size_rule" in job.parameters:
        batch = f"{batch} ({job.parameters['batch_size_rule']})".strip()
    told = [] if job.scenario in ("training", "ceiling") else [job.scenario]
    told += [] if job.engine in (None, "eager") else [str(job.engine)]
    told += [f"{job.parameters['streams']} streams"] if "streams" in job.parameters else []
    told += [f"{job.parameters.get('instances', 1)} of {job.partition}"] if job.partition else []
    network = f"{job.network} ({', '.join(told)})" if told else job.network
    value = unit = count = ""
    if record.metrics.time_to_train_min is not None:
        value, unit = number(record.metrics.time_to_train_min), "min"
        count = f"{len(record.samples.runs)} runs" if record.samples.runs else ""
    elif throughput is not None:
        value, unit = quantity(throughput.value, throughput.ci95, throughput.unit)
        if throughput.n is not None:
            count = f"{throughput.n} in {throughput.processes}"
    return [
        network,
        job.size,
        job.precision or "",
        batch,
        str(job.accelerators),
        value,
        unit,
        count,
        record.status.value,
        record.system.name,
        note(record),
    ]


def note(record: Record) -> str:
    """The one thing that a reader of the table has to know besides the figure."""
    metrics = record.metrics
    parts = _of_inference(metrics)
    parts += record.reasons[:1]
    if metrics.scaling is not None:
        parts.append(f"scaling {metrics.scaling.efficiency:.0%} ({metrics.scaling.basis})")
    if metrics.ceiling is not None:
        share = metrics.ceiling.share
        parts.append(
            f"{share:.0%} of the measured matrix-product rate"
            if share <= 1
            else f"{share:.0%} of the measured ceiling: more than all is our error, please report it"
        )
    return "; ".join(parts)


def _of_inference(metrics: Metrics) -> list[str]:
    """Each part of a machine in parts, latency, and how many answers are those of fp32."""
    told = [
        f"{part.name}: {number(part.throughput.value)} (alone {number(part.alone.value)})"
        for part in metrics.parts
    ]
    latency, agreement = metrics.latency_ms, metrics.agreement
    if latency is not None and latency.mean is not None:
        tail = next(
            (
                f", {name} {number(value)}"
                for name in ("p99", "p95", "p90")
                if (value := getattr(latency, name)) is not None
            ),
            "",
        )
        told.append(f"mean {number(latency.mean)}{tail} ms")
    # An engine that is the reference itself agrees, of course.
    if agreement is not None and agreement.top1 is not None and agreement.relative_rms:
        told.append(f"top-1 as {agreement.reference} in {agreement.top1:.0%} of {agreement.samples}")
    return told


def print_records(records: Iterable[Record]) -> None:
    """The table of Records; `n` is windows in processes. In a pipe each line stands alone, notes and all."""
    shown = list(records)
    rows = [row(record) for record in shown]
    if not rows:
        print("no Records")
    elif sys.stdout.isatty():
        _print_on_terminal(shown, rows)
    else:
        print_table(COLUMNS, rows, {COLUMNS.index(name) for name in RIGHT})


def _print_on_terminal(records: Sequence[Record], rows: Sequence[Sequence[str]]) -> None:
    columns = {name: [cells[i] for cells in rows] for i, name in enumerate(COLUMNS)}
    shared = _take_shared(columns)
    if shared:
        say(safe(shared))
        print()
    # A sentence in the last column would squeeze all others: notes stand below, once each.
    notes = list(dict.fromkeys(filter(None, columns["note"])))
    columns["note"] = [str(notes.index(text) + 1) if text else "" for text in columns["note"]]
    bars = _bars(records) if draws_bars() else []
    if any(bars):
        columns["of largest"] = bars
    order = [name for name in (*COLUMNS[:7], "of largest", *COLUMNS[7:]) if name in columns]
    print_table(
        order,
        list(zip(*(columns[name] for name in order), strict=True)),
        {order.index(name) for name in RIGHT if name in order},
        [order.index(name) for name in DROP if name in order],
    )
    if notes:
        print()
    print_notes(notes)


def _take_shared(columns: dict[str, list[str]]) -> str:
    """Take out what all rows share, to be said above the table; a single row keeps all but the system."""
    told = []
    for name in ("system", "size", "precision"):
        values = set(columns[name])
        if len(values) == 1 and (name == "system" or len(columns[name]) > 1):
            del columns[name]
            value = values.pop()
            told.append(value if name == "system" else f"{name} {value}" if value else "")
    return ", ".join(filter(None, told))


def _bars(records: Sequence[Record]) -> list[str]:
    """A bar for each figure, of the largest that measures the same thing; none where it stands alone."""
    figures = [_figure(record) for record in records]
    counts = Counter(key for key, _, _ in filter(None, figures))
    largest: dict[tuple[str, ...], float] = {}
    for figure in filter(None, figures):
        largest[figure[0]] = max(largest.get(figure[0], 0), figure[1])
    return [
        bar(figure[1], largest[figure[0]], figure[2]) if figure and counts[figure[0]] > 1 else ""
        for figure in figures
    ]


def _figure(record: Record) -> tuple[tuple[str, ...], float, tuple[float, float] | None] | None:
    """What a Record's figure is of, the figure and its interval; None where there is no result."""
    job, metrics = record.job, record.metrics
    of = (job.network, job.size, job.scenario)
    if record.status not in USABLE:
        return None
    if metrics.time_to_train_min is not None:
        return (*of, "min"), metrics.time_to_train_min, None
    if metrics.throughput is not None:
        return (*of, metrics.throughput.unit), metrics.throughput.value, metrics.throughput.ci95
    return None


def print_json(records: Sequence[Record]) -> None:
    """A JSON list of Records, written one by one so that many need no more memory than they take."""
    write = sys.stdout.write
    write("[")
    for i, record in enumerate(records):
        write((",\n" if i else "\n") + record.text())
    write("\n]\n")
