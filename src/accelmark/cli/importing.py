"""Reading the files of others into a store, and the summary of what was read."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import typer

from accelmark.cli.table import print_json
from accelmark.errors import UnreadableInputError, unknown
from accelmark.importers.summary import Skipped, Summary
from accelmark.store import Store
from accelmark.text import print_table, safe

#: What can be imported: the format's name and the module whose `read` reads it.
FORMATS = {
    "mlperf-training": "mlperf_training",
    "mlperf-inference": "mlperf_inference",
    "lambda-csv": "lambda_csv",
    "lambda-logs": "lambda_logs",
    "dllogger": "dllogger",
}


def import_files(format: str, path: Path, out: Path, as_json: bool) -> None:
    """Import files and print what was read and what was not; an `UnreadableInputError` if nothing was."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    records, summary = import_module(f"accelmark.importers.{FORMATS[format]}").read(path)
    if not records:
        raise UnreadableInputError(
            f"{safe(path)} holds no figure that can be read; the first problem: {_first(summary)}."
        )
    store = Store(out)
    store.prepare()
    written = store.write_many(records)
    if as_json:
        print_json(records)
        return
    typer.echo(f"{written} Records from {safe(path)} written to {safe(out)}\n")
    _print(summary)


def _first(summary: Summary) -> str:
    for skipped in summary.skipped:
        place = f"{skipped.file}:{skipped.line}" if skipped.line else skipped.file
        return safe(f"{place}: {skipped.why}")
    return "the tables have no rows"


def _print(summary: Summary) -> None:
    print_table(["file", "Records"], [[name, str(count)] for name, count in summary.files.items()], right={1})
    for heading, entries in (("Not read", summary.skipped), ("Notes", summary.notes)):
        if entries:
            typer.echo(f"\n{heading}:\n")
            print_table(["file", "count", "why", "where"], _grouped(entries), right={1})


def _grouped(entries: Iterable[Skipped]) -> list[list[str]]:
    """The same reason in the same file as one line, with the first places."""
    places: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        parts = [f"line {entry.line}" if entry.line else "", entry.where]
        places.setdefault((entry.file, entry.why), []).append(" ".join(part for part in parts if part))
    shown = 4
    return [
        [file, str(len(found)), why, ", ".join(found[:shown]) + (", …" if len(found) > shown else "")]
        for (file, why), found in places.items()
    ]
