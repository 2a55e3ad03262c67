"""`accelmark show`: Records as a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def show(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders of Records, or files; or ids such as nvidia-2021-04/176.")
    ],
    network: Annotated[str | None, typer.Option(help="Only this network.")] = None,
    status: Annotated[str | None, typer.Option(help="Only this status: ok, noisy, …")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show the newest so many; 0 shows all.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print whole Records as a JSON list.")] = False,
) -> None:
    """Show Records: value ± 95 % interval, unit, windows and processes, status."""
    from accelmark import published
    from accelmark.cli.table import print_json, print_records
    from accelmark.errors import EXIT_UNREADABLE, unknown
    from accelmark.record import Status

    identities = [str(path) for path in paths if published.is_id(str(path)) and not path.exists()]
    if identities:
        from accelmark.cli.details import print_details

        print_details([published.find(identity) for identity in identities], as_json)
        paths = [path for path in paths if str(path) not in identities]
        if not paths:
            return
    if status is not None and status not in list(Status):
        raise unknown("status", status, [known.value for known in Status])
    if as_json:
        from accelmark.store import read

        result = read(paths)
        problems = result.problems
        print_json(
            [
                record
                for record in result.records
                if network in (None, record.job.network) and status in (None, record.status.value)
            ]
        )
    else:
        from accelmark.index import select

        answer = select(paths, network=network, status=status, limit=limit or None)
        problems = answer.problems
        print_records(answer.records)
        if answer.count > len(answer.records):
            counts = ", ".join(f"{count:,} {name}" for name, count in answer.statuses.items())
            print(
                f"\nthe newest {len(answer.records):,} of {answer.count:,} Records ({counts}); "
                f"--limit 0 shows all"
            )
    for problem in problems[:20]:
        print(f"accelmark: {problem}", file=sys.stderr)
    if len(problems) > 20:
        print(f"accelmark: … and {len(problems) - 20:,} more files that are no Records", file=sys.stderr)
    if problems:
        raise typer.Exit(EXIT_UNREADABLE)
