"""What a person sees while measuring: a bar that knows what is left, and a line for each finished Job."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from accelmark.record import Record, Window
from accelmark.text import duration, quantity, safe


def one_line(record: Record) -> str:
    """A Record in one line: Job, value and interval, status, the first reason."""
    parts = [record.job.label()]
    throughput = record.metrics.throughput
    if throughput is not None:
        parts.append(" ".join(quantity(throughput.value, throughput.ci95, throughput.unit)))
    parts.append(record.status.value)
    if record.status.value != "ok" and record.reasons:
        parts.append(record.reasons[0])
    return safe("  ".join(parts))


class Lines:
    """Plain lines, for a pipe or a log."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def begin(self, total_s: float, jobs: int) -> None:
        """Say how much there is to do."""
        self._say(f"{jobs} Jobs, about {duration(total_s)}")

    def work(self, label: str, remaining_s: float) -> None:
        """Say what runs now."""
        self._say(f"measuring {label}; about {duration(remaining_s)} left")

    def window(self, window: Window, warm_up: bool) -> None:
        """Windows are too many for lines."""

    def done(self, record: Record, final: bool) -> None:
        """Say what came out."""
        self._say(one_line(record) + ("" if final else "  (more processes follow)"))

    def close(self) -> None:
        """Nothing to put back."""

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.start:5.0f} s] {safe(text)}", file=sys.stderr, flush=True)


#: Seconds between two drawings of the bar while a process measures; each takes a few milliseconds of a core.
DRAW_S = 2.0


class Bar:
    """A bar on a terminal. It is drawn only when something happens: a refreshing thread would take time
    from what is measured.
    """

    def __init__(self) -> None:
        self.progress = Progress(
            BarColumn(30),
            TaskProgressColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self.task = self.progress.add_task("starting", total=1.0)
        self.total_s = self.left_s = 1.0
        self.started = time.monotonic()
        self.label = ""
        self.drawn = 0.0

    def begin(self, total_s: float, jobs: int) -> None:
        """Start drawing."""
        self.progress.start()
        self.left_s = total_s
        self._draw(f"{jobs} Jobs, about {duration(total_s)}")

    def work(self, label: str, remaining_s: float) -> None:
        """A process starts: the estimate of what is left is new."""
        self.left_s, self.started, self.label = remaining_s, time.monotonic(), safe(label)
        self._draw(f"{self.label}: starting")

    def window(self, window: Window, warm_up: bool) -> None:
        """A window has ended."""
        if time.monotonic() - self.drawn < DRAW_S:
            return
        rate = f"{window.units / window.seconds:,.4g}/s"
        self._draw(f"{self.label}: warming up" if warm_up else f"{self.label}: {rate}")

    def done(self, record: Record, final: bool) -> None:
        """Put a finished Job above the bar."""
        if final:
            self.progress.console.print(one_line(record), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        self.progress.stop()

    def _draw(self, text: str) -> None:
        elapsed = self.progress.tasks[0].elapsed or 0.0
        left = max(0.0, self.left_s - (time.monotonic() - self.started))
        self.progress.update(
            self.task,
            completed=elapsed,
            total=max(elapsed + left, 1.0),
            description=f"{duration(left)} left  {text}",
        )
        self.progress.refresh()
        self.drawn = time.monotonic()


def reporter() -> Bar | Lines:
    """A bar where a person watches, lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()
