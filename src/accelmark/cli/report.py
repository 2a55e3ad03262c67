"""`accelmark report`: pages to read, or tables to pass on, from any Records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files of Records, as `accelmark run` keeps them.")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="published|SET|PATH",
            help="Put these beside them: all published rows, one set, …",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(help="html (a site), or only tables: markdown, csv, json, latex; or only charts: png."),
    ] = "html",
    baseline: Annotated[
        str | None, typer.Option(metavar="SYSTEM", help="The system that charts are relative to.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option(metavar="a,b", help="Conditions that may differ in comparisons.")
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the report.")] = "Deep-learning performance",
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; site for html, report for the others.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that holds something else.")
    ] = False,
) -> None:
    """Make a report: a site that opens from the disk, or its tables or charts alone."""
    from accelmark.cli.reporting import Wanted, make_report

    make_report(Wanted(paths or [], beside or [], format, baseline, allow, title, out, force))
