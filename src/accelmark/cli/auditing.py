"""The audit's findings on the terminal: as a table for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from accelmark.audit import SEVERITIES, Finding, audit
from accelmark.cli.sources import read_any
from accelmark.errors import EXIT_MEASUREMENT_FAILED, unknown
from accelmark.text import print_table, safe

#: More records in one cell would push the others out of sight.
SHOWN = 12


def print_audit(sources: Sequence[str], severity: str, fail_on: str | None, as_json: bool) -> None:
    """Audit the Records that these words and paths mean."""
    failing = _or_graver(fail_on) if fail_on else ()
    shown = _or_graver(severity)
    records = read_any(sources)
    everything = audit(records)
    findings = [finding for finding in everything if finding.severity in shown]
    if as_json:
        print(json.dumps([_as_dict(finding) for finding in findings], indent=1, ensure_ascii=False))
    else:
        _print(findings, len(records))
    if any(finding.severity in failing for finding in everything):
        raise typer.Exit(EXIT_MEASUREMENT_FAILED)


def _or_graver(severity: str) -> Sequence[str]:
    if severity not in SEVERITIES:
        raise unknown("severity", severity, SEVERITIES)
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


def _as_dict(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "records": list(finding.records),
        "against": list(finding.against),
        "expected": finding.expected,
        "found": finding.found,
        "message": finding.message,
    }


def _print(findings: Sequence[Finding], count: int) -> None:
    if findings:
        rows = [
            [finding.severity, finding.rule, _names(finding.records), finding.expected, finding.found]
            for finding in findings
        ]
        print_table(("severity", "rule", "records", "expected", "found"), rows)
        print()
        for finding in findings:
            if finding.severity != "note":
                print(safe(f"{finding.severity}: {finding.message}"))
        print()
    counts = [
        f"{sum(finding.severity == severity for finding in findings)} {severity}s" for severity in SEVERITIES
    ]
    print(f"{count:,} Records: {', '.join(counts)}")


def _names(identities: Sequence[str]) -> str:
    more = f", … ({len(identities)})" if len(identities) > SHOWN else ""
    return ", ".join(identities[:SHOWN]) + more
