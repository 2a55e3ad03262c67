"""Calls in flight: so many streams, each of which begins its next call when its last one has ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from accelmark.measure.device import Device


class InFlight:
    """Streams in threads of their own, and a step for the loop that waits for the next calls to end.

    A call's units count when it ends. Streams run on while the loop is between windows, so a window begins
    and ends with as many calls in flight: what ends before a window begins is not counted (`synchronize`).
    `calls` are functions that make one call each, the n-th one of their stream.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[int], None]],
        units: float,
    ) -> None:
        self.units = units
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._stream, args=(i, call), daemon=True) for i, call in enumerate(calls)
        ]

    def __enter__(self) -> InFlight:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def __call__(self) -> float:
        """Wait until as many more calls have ended as there are streams; their units.

        Streams often end together; the time until a single call ends would then be none at all, or a whole
        call's.
        """
        for _ in self._threads:
            error = self._ended.get()
            if error is not None:
                raise error
        return self.units * len(self._threads)

    def forget_ended(self) -> None:
        """Calls that have ended already count for nothing."""
        while not self._ended.empty():
            error = self._ended.get()
            if error is not None:
                raise error

    def _stream(self, index: int, call: Callable[[int], None]) -> None:
        turn = index
        while not self._stop.is_set():
            try:
                call(turn)
            except Exception as error:  # noqa: BLE001 - raised again by whoever waits for the call
                self._ended.put(error)
                return
            self._ended.put(None)
            turn += 1


class ObservedDevice:
    """A device for the measuring loop over calls in flight: it cannot be synchronised while they go on."""

    def __init__(self, device: Device, calls: InFlight) -> None:
        self.kind = device.kind
        self._calls = calls

    def synchronize(self) -> None:
        """Begin or end a window: nothing that has ended counts any more."""
        self._calls.forget_ended()

    def mark(self) -> object | None:
        """Calls overlap, so the device's queue has no marks between them."""
        return None

    def milliseconds(self, start: object, end: object) -> float:
        """There are no marks."""
        raise NotImplementedError

    def reset_peak_memory(self) -> None:
        """The peak is the device's."""

    def peak_memory_gib(self) -> float | None:
        """The peak is the device's."""
        return None
