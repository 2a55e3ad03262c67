"""What an importer read, and what it did not read and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from accelmark.errors import UnreadableInputError
from accelmark.text import safe


@dataclass(frozen=True)
class Skipped:
    """Something that gave no Record: the file's name, the 1-based line (`None`: the whole file), the reason.

    The same reason is always worded the same, so that a report can count it; what differs is in `where`.
    """

    file: str
    line: int | None
    why: str
    where: str = ""


@dataclass
class Summary:
    """The account of an import. `files` counts Records per file; `notes` are about what was read."""

    records: int = 0
    files: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[Skipped] = field(default_factory=list)

    def skip(self, file: str, line: int | None, why: str, where: str = "") -> None:
        """Name something that gave no Record."""
        self.skipped.append(Skipped(file, line, why, where))

    def because(self) -> str:
        """The first problem in brackets, for the sentence that nothing was read; empty without one."""
        if not self.skipped:
            return ""
        return safe(f" ({self.skipped[0].file}: {self.skipped[0].why})")

    def note(self, file: str, line: int | None, why: str, where: str = "") -> None:
        """Say something about what was read all the same."""
        self.notes.append(Skipped(file, line, why, where))


def need_folder(path: Path, give: str) -> None:
    """An `UnreadableInputError` if there is no folder here; it ends with what to `give` instead."""
    # os.path, because Path's own methods raise for a name that is too long for the system.
    if not os.path.isdir(path):
        what = "is not a folder" if os.path.exists(path) else "does not exist"
        raise UnreadableInputError(f"{safe(path)} {what}; {give}")
