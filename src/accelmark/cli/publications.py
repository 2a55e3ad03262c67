"""The published rows on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from accelmark import names, published
from accelmark.cli.table import print_json
from accelmark.errors import unknown
from accelmark.record import Record
from accelmark.text import number, print_table, say

COLUMNS = ("id", "network", "scenario", "precision", "batch", "accelerators", "figure", "latency", "per watt")
FIGURES = {4, 6, 7, 8}
#: What a narrow terminal does without, the least important first.
DROP = [COLUMNS.index(name) for name in ("per watt", "latency", "batch", "precision", "scenario")]
#: Parameters that a reader needs beside the scenario to know what a row is.
SHOWN = {
    "task": "{}",
    "latency_bound_ms": "within {} ms",
    "streams": "{} streams",
    "chunk_ms": "chunks of {} ms",
    "concurrent_requests": "{} requests",
    "accuracy_target": "{} % target",
}


def print_published(
    network: str | None, scenario: str | None, accelerator: str | None, runnable: bool, as_json: bool
) -> None:
    """Print the rows that the options leave, or how many of them can run here."""
    records = _select(published.load(published.ALL), network, scenario, accelerator)
    if runnable:
        _print_runnable(records, as_json)
    elif as_json:
        print_json(records)
    else:
        # On a terminal figures are aligned to the right, which keeps them whole.
        right = FIGURES if sys.stdout.isatty() else {4}
        print_table(COLUMNS, [row(record) for record in records], right, DROP)
        print()
        say(f"{len(records)} rows; accelmark show ID for all of one, accelmark reproduce ID to run it")


def _select(
    records: Sequence[Record], network: str | None, scenario: str | None, accelerator: str | None
) -> list[Record]:
    for kind, wanted, known in (
        ("network", network, {record.job.network for record in records}),
        ("scenario", scenario, {record.job.scenario for record in records}),
    ):
        if wanted is not None and wanted not in known:
            raise unknown(f"published {kind}", wanted, known)
    boards = {record.system.accelerator.name for record in records}
    if accelerator is not None:
        canonical, part = names.board(accelerator), accelerator.casefold()
        chosen = {board for board in boards if board == canonical} or {
            board for board in boards if part in board.casefold()
        }
        if not chosen:
            raise unknown("published accelerator", accelerator, boards)
        boards = chosen
    return [
        record
        for record in records
        if network in (None, record.job.network)
        and scenario in (None, record.job.scenario)
        and record.system.accelerator.name in boards
    ]


def row(record: Record) -> list[str]:
    """One published row's cells."""
    job, metrics = record.job, record.metrics
    words = [text.format(job.parameters[name]) for name, text in SHOWN.items() if name in job.parameters]
    if job.sequence_length is not None:
        words.append(f"length {job.sequence_length}")
    partition = ""
    if job.partition is not None:
        instances = job.parameters.get("instances", 1)
        partition = f" ({instances} x {job.partition})"
    return [
        record.id,
        job.network,
        f"{job.scenario}: {', '.join(words)}" if words else job.scenario,
        job.precision or "",
        "" if job.batch_size is None else str(job.batch_size),
        f"{job.accelerators}x {record.system.accelerator.name}{partition}",
        "; ".join(_figures(record)),
        "" if metrics.latency_ms is None else f"{metrics.latency_ms.mean:g} ms",
        "" if metrics.efficiency is None else f"{metrics.efficiency.value:g} ({metrics.power_basis})",
    ]


def _figures(record: Record) -> Iterable[str]:
    metrics = record.metrics
    if metrics.time_to_train_min is not None:
        yield f"{metrics.time_to_train_min:g} min"
    if metrics.throughput is not None:
        yield f"{metrics.throughput.value:,.10g} {metrics.throughput.unit}"
    if metrics.ratio is not None:
        yield f"{number(metrics.ratio, 3)}x of {record.job.parameters['over']}"


def _print_runnable(records: Sequence[Record], as_json: bool) -> None:
    from accelmark.run.reproduce import count_runnable, look

    system = look()
    counts = count_runnable(records, system)
    if as_json:
        print(
            json.dumps(
                {
                    "rows": counts.rows,
                    "resolved": counts.resolved,
                    "runnable_here": counts.here,
                    "runnable_small": counts.small,
                    "system": system.name,
                },
                indent=1,
            )
        )
        return
    print_table(
        ("rows", "resolved to Jobs", "runnable here", "runnable small"),
        [[str(counts.rows), str(counts.resolved), str(counts.here), str(counts.small)]],
        right={0, 1, 2, 3},
    )
