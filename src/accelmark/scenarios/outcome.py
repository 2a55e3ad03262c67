"""What a scenario hands back from one process: a status, metrics, and the raw samples they rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from accelmark.job import Scalar
from accelmark.record import Execution, Metrics, Samples, Status, Window

#: Called with each window as it ends, and whether it was warm-up.
OnWindow = Callable[[Window, bool], None]


class Outcome(NamedTuple):
    """One process's result, before other processes of the same Job are combined with it."""

    status: Status
    reasons: list[str]
    metrics: Metrics
    samples: Samples
    #: What the process decided itself and a reader has to know, such as the size of a ceiling's matrices.
    conditions: Mapping[str, Scalar] = MappingProxyType({})
    execution: Execution | None = None
