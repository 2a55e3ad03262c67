"""The host's memory while something is measured."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

import psutil

from accelmark.measure.machine import GIB
from accelmark.measure.telemetry import Sampler


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and all its descendants; those that just ended count nothing.

    Pages that several processes share count once for each: the sum is an upper bound for them.
    """
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in family:
        try:
            total += process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


class HostMemory:
    """Keeps the largest resident memory of a process tree while the `with` block runs.

    A peak shorter than `interval_s` may be missed.
    """

    def __init__(self, pid: int | None = None, interval_s: float = 0.2) -> None:
        self._pid = os.getpid() if pid is None else pid
        self._peak = 0
        self._sampler = Sampler(self.take, interval_s)

    def take(self) -> None:
        """One sample."""
        self._peak = max(self._peak, resident_bytes(self._pid))

    def peak_gib(self) -> float | None:
        """The largest sample in GiB; `None` if the process was never seen."""
        return self._peak / GIB if self._peak else None

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sampler.stop()
        self.take()
