"""`accelmark reproduce`: run here what a published row says was run there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    target: Annotated[
        str,
        typer.Argument(metavar="ID|FILE", help="A published row, such as nvidia-2021-04/176, or a Record."),
    ],
    size: Annotated[str | None, typer.Option(help="Run another size, such as tiny.")] = None,
    time_budget: Annotated[str | None, typer.Option(help="Time for each Job, like 60s.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps or xpu.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the Records.")] = Path("results"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the Job and what is missing; measure nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repeat a published row, an imported result or a Record of one's own on this machine."""
    from accelmark.cli.reproducing import run_again, show_plan

    if dry_run:
        show_plan(target, size, as_json)
    else:
        run_again(target, size, time_budget, device, out, as_json)
