"""Everything that one Record says, field by field, with the audit's doubts about it."""

from __future__ import annotations

from collections.abc import Sequence

from accelmark import published
from accelmark.audit import audit
from accelmark.cli.table import print_json
from accelmark.record import Record
from accelmark.report.fields import fields
from accelmark.text import safe


def print_details(records: Sequence[Record], as_json: bool) -> None:
    """Print published rows one by one: each field that says something, the source's row, doubts."""
    if as_json:
        print_json(records)
        return
    sets = dict.fromkeys(record.id.partition("/")[0] for record in records)
    findings = [finding for name in sets for finding in audit(published.load(name))]
    for place, record in enumerate(records):
        if place:
            print()
        told = fields(record)
        width = max(len(name) for name, _ in told)
        for name, value in told:
            print(f"{name.ljust(width)}  {value}")
        for finding in findings:
            if record.id in finding.records:
                doubt = f"{finding.severity}, {finding.rule}: {finding.message}"
                print(f"{'doubt'.ljust(width)}  {safe(doubt)}")
        print(f"{'repeat it'.ljust(width)}  accelmark reproduce {safe(record.id)}")
