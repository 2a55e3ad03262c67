"""`accelmark doctor`: what is here to be measured, what would disturb it, and what to do about it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """Look at this machine: what it has, what would disturb a measurement, and how to change that."""
    from accelmark.engines.precision import unsupported
    from accelmark.errors import EXIT_MISSING_LIBRARY
    from accelmark.measure.doctor import anything_missing, by_topic, examine
    from accelmark.text import print_table

    findings = examine(unsupported)
    if as_json:
        objects = [finding.model_dump(mode="json") for finding in findings]
        sys.stdout.write(json.dumps(objects, indent=2, ensure_ascii=False) + "\n")
    else:
        rows = []
        for topic, group in by_topic(findings).items():
            for position, finding in enumerate(group):
                # In a pipe each line stands alone; on a terminal a topic is named once.
                name = topic if position == 0 or not sys.stdout.isatty() else ""
                rows.append([name, finding.level.value, finding.what, finding.fix])
        print_table(["topic", "level", "found", "what to do"], rows)
    if anything_missing(findings):
        raise typer.Exit(EXIT_MISSING_LIBRARY)
