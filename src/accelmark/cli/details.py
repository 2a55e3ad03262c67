"""Everything that one Record says, field by field, with the audit's doubts about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accelmark import published
from accelmark.audit import Finding, audit
from accelmark.cli.table import print_json
from accelmark.record import Record
from accelmark.text import safe

#: What every Record has and no reader asks for.
QUIET = {"schema_version", "samples", "log_tail", "settings", "command"}


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
        width = max(len(name) for name, _ in _fields(record))
        for name, value in _fields(record):
            print(f"{name.ljust(width)}  {safe(value)}")
        for finding in findings:
            if record.id in finding.records:
                print(f"{'doubt'.ljust(width)}  {safe(_doubt(finding))}")
        print(f"{'repeat it'.ljust(width)}  accelmark reproduce {safe(record.id)}")


def _doubt(finding: Finding) -> str:
    return f"{finding.severity}, {finding.rule}: {finding.message}"


def _fields(record: Record) -> list[tuple[str, str]]:
    content = record.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=QUIET)
    return list(_flat("", content))


def _flat(prefix: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flat(f"{path}.", value)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for place, item in enumerate(value):
                yield from _flat(f"{path}[{place}].", item)
        elif value not in ([], {}):
            yield path, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
