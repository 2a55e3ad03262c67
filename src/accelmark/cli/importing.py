"""Reading the files of others into a store, and the summary of what was read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from accelmark.cli.table import print_json
from accelmark.errors import UnreadableInputError, unknown
from accelmark.importers import lambda_csv
from accelmark.importers.summary import Skipped, Summary
from accelmark.store import Store
from accelmark.text import print_table, safe

#: What can be imported: the format's name and what reads a folder of it.
FORMATS = {"lambda-csv": lambda_csv.read}


def import_files(format: str, directory: Path, out: Path, as_json: bool) -> None:
    """Import a folder and print what was read and what was not; an `UnreadableInputError` if nothing was."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    records, summary = FORMATS[format](directory)
    if not records:
        raise UnreadableInputError(
            f"{safe(directory)} holds no figure that can be read; the first problem: {_first(summary)}."
        )
    store = Store(out)
    store.prepare()
    written = store.write_many(records)
    if as_json:
        print_json(records)
        return
    typer.echo(f"{written} Records from {safe(directory)} written to {safe(out)}\n")
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
