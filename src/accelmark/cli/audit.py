"""`accelmark audit`: figures that contradict arithmetic, physics or each other."""

from __future__ import annotations

from typing import Annotated

import typer


def audit(
    records: Annotated[
        list[str], typer.Argument(help="Folders or files of Records, published, or one published set.")
    ],
    severity: Annotated[
        str, typer.Option(help="The least severity to show: note, warning or error.")
    ] = "note",
    fail_on: Annotated[
        str | None, typer.Option(help="Exit 1 if there is a finding of this severity or a graver one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as a JSON list.")] = False,
) -> None:
    """Check Records by rules of arithmetic and physics: figures that cannot be right, and why."""
    from accelmark.cli.auditing import print_audit

    print_audit(records, severity, fail_on, as_json)
