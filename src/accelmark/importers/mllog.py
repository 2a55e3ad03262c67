"""The log of one MLPerf training run: `:::MLLOG` and a JSON object, anywhere in a line of launcher output.

Ranks put their number before the marker, and lines of two ranks run into each other, so every marker of a
line is looked at and what stands around its object is passed over. Several ranks may log the same event.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelmark.importers.lines import lines, text
from accelmark.text import safe

MARKER = b":::MLLOG"
_DECODER = json.JSONDecoder()
#: Most events are of epochs and blocks; decoding them would take most of the time.
_USED = re.compile(rb'"key"\s*:\s*"(?:run_st|eval_acc|submission_|global_batch)')
_COUNT = re.compile(r"[0-9]{1,6}")
#: Milliseconds since 1970. Larger ones (the year 33658) are no time, and no longer exact in a float.
_MAX_TIME = 1e15
_MAX_ROW = 300


@dataclass(frozen=True)
class Event:
    """One logged event. `time_ms` is `None` if it is missing or no time; `metadata` is empty if it is null.

    `intact` says that all its bytes were UTF-8: otherwise a text in it may be another than was logged.
    """

    key: str
    value: object
    time_ms: float | None
    metadata: Mapping[str, object]
    intact: bool


def events(line: bytes) -> Iterator[Event | None]:
    """The events of a line, in their order; `None` for a marker without a whole event after it."""
    # Cut at the markers first: an object that is not closed would be read to the line's end for each of them.
    for piece in text(line).split(MARKER.decode())[1:]:
        yield _event(piece.lstrip())


def _event(piece: str) -> Event | None:
    try:
        data, _ = _DECODER.raw_decode(piece)
    except (ValueError, RecursionError):  # no JSON, cut off, or nested without end
        return None
    if not isinstance(data, dict) or not isinstance(data.get("key"), str):
        return None
    metadata = data.get("metadata")
    return Event(
        key=data["key"],
        value=data.get("value"),
        time_ms=_time(data.get("time_ms")),
        metadata=metadata if isinstance(metadata, dict) else {},
        intact="\N{REPLACEMENT CHARACTER}" not in piece,
    )


def _time(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < _MAX_TIME else None


@dataclass
class Span:
    """How often an event was logged, and the earliest and the latest time of it in milliseconds."""

    count: int = 0
    first: float = math.inf
    last: float = -math.inf

    def add(self, time: float | None) -> bool:
        """Count an event; whether it is the earliest until now."""
        self.count += 1
        if time is None:
            return False
        earliest = time < self.first
        self.first = min(self.first, time)
        self.last = max(self.last, time)
        return earliest


@dataclass
class Evaluation:
    """The latest and the best value of one quality metric in a run, as fractions."""

    last: float
    best: float
    time: float


@dataclass
class Log:
    """What one file says. Nothing in it grows with the file.

    `failure` is why the run failed, by its own account, and `error` what makes the log useless. `said` holds
    what the run says of itself by key; `None` is what it says in two ways. `evaluations` are by the value's
    name in `eval_accuracy`, which is empty where that is one number. `stop_line` and `stop_row` are those of
    the earliest `run_stop`.
    """

    file: str
    recognised: bool = False
    damaged: int = 0
    damaged_line: int | None = None
    start: Span = field(default_factory=Span)
    stop: Span = field(default_factory=Span)
    stop_line: int | None = None
    stop_row: str | None = None
    failure: str | None = None
    error: str | None = None
    said: dict[str, Any] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def add(self, event: Event, number: int, line: bytes) -> None:
        """Take what an event says. Only its key counts: loggers do not agree on event types."""
        match event.key:
            case "run_start":
                self.start.add(event.time_ms)
            case "run_stop":
                if self.stop.add(event.time_ms) or self.stop_line is None:
                    self.stop_line, self.stop_row = number, text(line)[:_MAX_ROW]
                self._end(event)
            case "eval_accuracy":
                self._evaluate(event)
            case "submission_benchmark" | "submission_org" | "submission_platform" | "submission_division":
                if event.intact:
                    self._say(event.key, name_of(event.value))
            case "global_batch_size":
                self._say(event.key, count(event.value))

    def _end(self, event: Event) -> None:
        status = event.metadata.get("status")
        if status == "success":
            return
        if not event.intact:
            self.error = "run_stop is damaged"
        elif isinstance(status, str):
            self.failure = f"run_stop says {safe(status)}"
        else:
            self.failure = "run_stop does not say that the run succeeded"

    def _say(self, key: str, value: object) -> None:
        if value is not None:
            # A file that says two things says nothing that could be relied on.
            self.said[key] = value if self.said.get(key, value) == value else None

    def _evaluate(self, event: Event) -> None:
        values = event.value if isinstance(event.value, dict) else {"": event.value}
        for key in ("", "BBOX", "SEGM"):
            value = values.get(key)
            # Quality is a fraction in these logs; in other units it is not clear what it is.
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                continue
            time = event.time_ms or 0.0
            seen = self.evaluations.setdefault(key, Evaluation(value, value, time))
            seen.best = max(seen.best, value)
            if time >= seen.time:
                seen.last, seen.time = value, time


def read(path: Path, file: str) -> Log:
    """Read a log in constant memory; `file` is what the Log calls it. An unreadable file has an `error`."""
    log = Log(file)
    # A pipe would wait for somebody to write into it.
    if not os.path.isfile(path):
        log.error = "is no file"
        return log
    try:
        for number, line in lines(path):
            if MARKER not in line:
                continue
            log.recognised = True
            for event in events(line) if _USED.search(line) else ():
                if event is None:
                    log.damaged += 1
                    log.damaged_line = log.damaged_line or number
                else:
                    log.add(event, number, line)
    except OSError as error:
        log.error = f"cannot be read: {error.strerror}"
    return log


def count(value: object) -> int | None:
    """A positive whole number; some are written as text."""
    match = _COUNT.fullmatch(value) if isinstance(value, str) else None
    number = int(match[0]) if match else value
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if 0 < number < 10**9 else None


def name_of(value: object) -> str | None:
    """A text that can be a name. JSON may hold halves of characters, which no Record can."""
    if not isinstance(value, str):
        return None
    plain = value.encode("utf-8", errors="replace").decode().strip()
    return plain if 0 < len(plain) <= 200 else None
