"""The host's memory while something is measured.

The kernel keeps every process's largest resident memory; on Linux that mark can be reset. Reading it at the
end costs nothing while measuring and misses no peak, where a sampling thread would take time from a small
machine's steps and miss what lies between two samples.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import Self

from accelmark.measure.machine import GIB

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class HostMemory:
    """The largest resident memory of this process while the `with` block runs.

    Where the mark cannot be reset (macOS, a locked container) it is the largest since the process began.
    """

    def __init__(self) -> None:
        self._peak_bytes = 0

    def peak_gib(self) -> float | None:
        """The peak in GiB, after the block; `None` where the system keeps none."""
        return self._peak_bytes / GIB if self._peak_bytes else None

    def __enter__(self) -> Self:
        # 5 resets the mark (Linux, proc_pid_clear_refs(5)).
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5", encoding="ascii")
        return self

    def __exit__(self, *exception: object) -> None:
        self._peak_bytes = _largest_resident_bytes()


def _largest_resident_bytes() -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
