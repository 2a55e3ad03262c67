"""Which part of an accelerator a Record is of."""

from __future__ import annotations

import re
from fractions import Fraction

from accelmark import names
from accelmark.record import Record

_SHARE = re.compile(r"([1-9][0-9]?)/([1-9][0-9]?)")
#: NVIDIA's profiles count compute slices: 2g.10gb has two.
_PROFILE = re.compile(r"([1-7])g\.[0-9]+gb")
#: Slices of a board that can be partitioned (NVIDIA Multi-Instance GPU user guide).
SLICES = 7
SLICES_A30 = 4


def share(record: Record) -> Fraction | None:
    """The part of one accelerator that all instances of a Record have together; `None` if it is not known."""
    job = record.job
    if job.partition is None:
        return Fraction(1)
    instances = job.parameters.get("instances", 1)
    if not isinstance(instances, int) or instances < 1:
        return None
    if written := _SHARE.fullmatch(job.partition):
        one = Fraction(int(written[1]), int(written[2]))
    elif profile := _PROFILE.fullmatch(job.partition):
        slices = SLICES_A30 if names.board(record.system.accelerator.name) == "A30" else SLICES
        one = Fraction(int(profile[1]), slices)
    else:
        return None
    together = one * instances
    return together if together <= 1 else None
