"""What other processes took of the host's CPUs while something was measured."""

from __future__ import annotations

import time

import psutil

from accelmark.measure.clock import MONOTONIC


class OtherProcesses:
    """CPU time of the whole machine against that of this process, from `start` on."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin to count."""
        self._busy, self._own, self._at = _busy_s(), time.process_time(), MONOTONIC()

    def stop(self) -> tuple[float, float, float]:
        """CPU seconds of the whole machine, of this process, and those that there were, since `start`."""
        capacity = (MONOTONIC() - self._at) * (psutil.cpu_count() or 1)
        return _busy_s() - self._busy, time.process_time() - self._own, capacity


def _busy_s() -> float:
    times = psutil.cpu_times()
    idle: float = times.idle + getattr(times, "iowait", 0.0)
    # Guests are counted in `user` already; stolen time is another machine's work on the same cores.
    return sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
