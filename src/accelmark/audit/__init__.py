"""The audit: rules of arithmetic and physics over any Records, which find figures that cannot be right.

Each rule is a function from Records to findings, in a module by what it looks at; its docstring says what it
assumes and when it says nothing. What is not known (a board's peak, a network's size) is never a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from accelmark.audit import arithmetic, energy, labels, physics, tables
from accelmark.audit.finding import SEVERITIES, Finding, Severity
from accelmark.audit.rows import natural
from accelmark.record import USABLE, Record

__all__ = ["RULES", "SEVERITIES", "Finding", "Severity", "audit", "doubts"]

#: Every rule, in the order in which findings of equal severity are told.
RULES: tuple[Callable[[Sequence[Record]], Iterator[Finding]], ...] = (
    arithmetic.batch_over_latency,
    arithmetic.littles_law,
    arithmetic.paced_streams,
    physics.above_peak,
    physics.above_ceiling,
    energy.energy_against_power,
    energy.efficiency_against_power,
    energy.above_power_limit,
    labels.odd_unit,
    labels.changing_precision,
    labels.unknown_target,
    labels.larger_faster,
    tables.repeated_figures,
    tables.copied_column,
    tables.exact_multiple,
)


def audit(records: Sequence[Record]) -> list[Finding]:
    """What is wrong with these Records, gravest first; the same for the same Records in any order.

    Records that are no results (`crashed`, `interrupted`, ...) are left out. Ids are taken to be unique.
    """
    rows = sorted((record for record in records if record.status in USABLE), key=lambda r: natural(r.id))
    findings = [finding for rule in RULES for finding in rule(rows)]
    # A stable sort: findings of equal severity stay in the order of the rules, then of the Records.
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def doubts(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings about each Record, by its id, the gravest first. Notes are no doubts."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.severity != "note":
            for identity in finding.records:
                found.setdefault(identity, []).append(finding)
    return found
