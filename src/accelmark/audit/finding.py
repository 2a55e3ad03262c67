"""What an audit finds: which rule, which Records, what was expected and what is there."""

from __future__ import annotations

from typing import Literal, get_args

from accelmark.job import Model

#: How much is wrong, gravest first. `error`: the figures contradict each other or physics, and no reading
#: saves them. `warning`: very probably wrong or mislabelled. `note`: worth knowing when comparing.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class Finding(Model):
    """One rule's doubt about one or more Records.

    `records` are the ids of those in doubt, `against` of those that they were compared with. `expected` and
    `found` are figures with units, or labels, as text; `message` says the whole in one sentence.
    """

    rule: str
    severity: Severity
    records: tuple[str, ...]
    against: tuple[str, ...] = ()
    expected: str
    found: str
    message: str
