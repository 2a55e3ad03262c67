"""The one interface through which an accelerator is timed, whatever its kind.

CUDA, ROCm, MPS, XPU and the CPU are in `engines/pytorch_device.py`, the only place that imports a framework
for it; the tests' fake device queues work like a GPU and drives the real measuring loop.
"""

from __future__ import annotations

from typing import Protocol


class Device(Protocol):
    """What the measuring loop needs from an accelerator."""

    kind: str

    def synchronize(self) -> None:
        """Wait until everything that was submitted has run."""

    def mark(self) -> object | None:
        """Put a time stamp into the device's own queue, without waiting; `None` if it has none."""

    def milliseconds(self, start: object, end: object) -> float:
        """Time between two marks, both of which have been reached."""

    def reset_peak_memory(self) -> None:
        """Begin a new peak."""

    def peak_memory_gib(self) -> float | None:
        """Largest allocation since the reset in GiB; `None` where the device cannot say."""
