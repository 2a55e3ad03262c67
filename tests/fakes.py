"""A clock and an accelerator that cost no time: they drive the real measuring loop with known numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeDevice:
    """Work is queued as on a GPU: submitting returns at once, only synchronising waits for it."""

    kind = "fake"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.busy_until = clock.now
        self.synchronized = 0

    def submit(self, seconds: float, host_s: float = 1e-6) -> None:
        self.clock.advance(host_s)
        self.busy_until = max(self.busy_until, self.clock.now) + seconds

    def synchronize(self) -> None:
        self.synchronized += 1
        self.clock.now = max(self.clock.now, self.busy_until)

    def mark(self) -> float:
        return max(self.busy_until, self.clock.now)

    def milliseconds(self, start: object, end: object) -> float:
        assert isinstance(start, float)
        assert isinstance(end, float)
        return (end - start) * 1000

    def reset_peak_memory(self) -> None:
        pass

    def peak_memory_gib(self) -> float | None:
        return None


class FakeStep:
    """A step of known units whose time may depend on how many steps came before."""

    def __init__(self, device: FakeDevice, units: float, seconds: Callable[[int], float]) -> None:
        self.device, self.units, self.seconds, self.count = device, units, seconds, 0

    def __call__(self) -> float:
        self.device.submit(self.seconds(self.count))
        self.count += 1
        return self.units


class _Shared:
    def __init__(self, size: int) -> None:
        self.meet = threading.Barrier(size)
        self.clocks: list[FakeClock] = [FakeClock() for _ in range(size)]
        self.values: list[tuple[float, ...]] = [()] * size


class FakeGroup:
    """One of several ranks in threads, each with a clock of its own that a barrier sets to the latest."""

    def __init__(self, rank: int, shared: _Shared) -> None:
        self.rank, self.size, self.shared = rank, len(shared.clocks), shared

    def barrier(self) -> None:
        self.shared.meet.wait()
        latest = max(clock.now for clock in self.shared.clocks)
        self.shared.meet.wait()
        self.shared.clocks[self.rank].now = latest
        self.shared.meet.wait()

    def exchange(self, values: tuple[float, ...]) -> list[tuple[float, ...]]:
        self.shared.values[self.rank] = values
        self.shared.meet.wait()
        everything = list(self.shared.values)
        self.shared.meet.wait()
        return everything


def on_ranks(size: int, body: Callable[[FakeGroup, FakeClock], None]) -> None:
    """Run `body` on so many ranks at once; what one raises is raised here."""
    shared = _Shared(size)
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            body(FakeGroup(rank, shared), shared.clocks[rank])
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            errors.append(error)
            shared.meet.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
