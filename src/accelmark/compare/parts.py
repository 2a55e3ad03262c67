"""Which part of an accelerator a Record is of."""

from __future__ import annotations

from accelmark.names import facts
from accelmark.record import Record


def share(record: Record) -> float | None:
    """The part of one accelerator that all instances of a Record have together; `None` if it is not known."""
    one = facts.share(record.system.accelerator.name, record.job.partition)
    instances = record.job.parameters.get("instances", 1)
    if one is None or not isinstance(instances, int) or instances < 1:
        return None
    together = one * instances
    return together if together <= 1 else None
