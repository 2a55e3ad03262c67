"""`accelmark ceiling`: what this machine can do at most, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ceiling(
    device: Annotated[
        str | None, typer.Option(help="cuda, rocm, xpu, mps or cpu; else the best here.")
    ] = None,
    allow_emulated: Annotated[
        bool, typer.Option("--allow-emulated", help="Measure precisions that are only emulated here.")
    ] = False,
    system_name: Annotated[str | None, typer.Option(help="What to call this machine in the Records.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the Records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the Records as a JSON list.")] = False,
) -> None:
    """Measure matrix-product rate per precision, memory copy, host link and all-reduce."""
    from accelmark.cli import options
    from accelmark.cli.measuring import finish, start
    from accelmark.run import plan as planning

    session = start(out, device, system_name, seed=0, prepare=True)
    jobs = planning.ceilings(options.settings([], device, allow_emulated), session.system)
    finish(session, session.run(jobs, resume=False), as_json)
