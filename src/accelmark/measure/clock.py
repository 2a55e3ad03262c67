"""The clock that everything is timed with: monotonic, in seconds. Tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

#: `CLOCK_MONOTONIC` at nanosecond resolution where the system has it.
MONOTONIC: Clock = time.perf_counter
