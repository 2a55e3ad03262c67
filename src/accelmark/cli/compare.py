"""`accelmark compare`: Records beside each other, one's own and the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files of Records, as `accelmark run` keeps them.")
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(help="Add a published set, such as lambda-2021-08, with its reference and groups."),
    ] = None,
    normalize_to: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM:PRECISION",
            help="What throughputs are divided by: one accelerator of it. 32-bit and mixed will do.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NETWORK,...",
            help="Networks to average over; NETWORK@SIZE for one of several sizes. May be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ratios as JSON.")] = False,
) -> None:
    """Compare systems: throughputs over a reference's, averaged over groups of networks, as ratios."""
    from accelmark.cli.comparison import print_comparison

    print_comparison(paths or [], published, normalize_to, group or [], as_json)
