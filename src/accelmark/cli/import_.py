"""`accelmark import`: other people's result files into a folder of Records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="mlperf-training, mlperf-inference, lambda-csv, lambda-logs or dllogger.",
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder that holds the files, or a file.")],
    out: Annotated[Path, typer.Option(help="The folder that Records are written to.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the Records as a JSON list.")] = False,
) -> None:
    """Import results of other tools as Records, and say what was not read and why."""
    from accelmark.cli.importing import import_files

    import_files(format, path, out, as_json)
