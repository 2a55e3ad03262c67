"""Records on the terminal: as a table for people, as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from accelmark.record import Record
from accelmark.text import number, print_table, quantity, safe

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
RIGHT = {3, 4, 5, 7}
SYSTEM = COLUMNS.index("system")


def row(record: Record) -> list[str]:
    """One Record's cells. What was not measured is blank here and explained in the note."""
    job, throughput = record.job, record.metrics.throughput
    batch = "" if job.batch_size is None else str(job.batch_size)
    if "batch_size_rule" in job.parameters:
        batch = f"{batch} ({job.parameters['batch_size_rule']})".strip()
    told = [] if job.scenario in ("training", "ceiling") else [job.scenario]
    told += [] if job.engine in (None, "eager") else [str(job.engine)]
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
    parts = list(record.reasons[:1])
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


def print_records(records: Iterable[Record]) -> None:
    """The table of Records; `n` is windows in processes. In a pipe each line stands alone, notes and all."""
    rows = [row(record) for record in records]
    if not rows:
        print("no Records")
    elif sys.stdout.isatty():
        # A sentence in the last column would squeeze all others: on a terminal notes stand below, once each.
        notes = list(dict.fromkeys(cells[-1] for cells in rows if cells[-1]))
        marked = [[*cells[:-1], str(notes.index(cells[-1]) + 1) if cells[-1] else ""] for cells in rows]
        systems = {cells[SYSTEM] for cells in rows}
        if len(systems) == 1:
            print(f"{safe(systems.pop())}\n")
            print_table(_without(COLUMNS, SYSTEM), [_without(cells, SYSTEM) for cells in marked], RIGHT)
        else:
            print_table(COLUMNS, marked, RIGHT)
        print()
        for number, text in enumerate(notes, 1):
            print(f"{number:>3}  {safe(text)}")
    else:
        print_table(COLUMNS, rows, RIGHT)


def _without(cells: Sequence[str], column: int) -> list[str]:
    return [cell for i, cell in enumerate(cells) if i != column]


def print_json(records: Sequence[Record]) -> None:
    """A JSON list of Records, written one by one so that many need no more memory than they take."""
    write = sys.stdout.write
    write("[")
    for i, record in enumerate(records):
        write((",\n" if i else "\n") + record.model_dump_json(exclude_none=True))
    write("\n]\n")
