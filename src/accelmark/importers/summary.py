"""What an importer read, and what it did not read and why."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    def note(self, file: str, line: int | None, why: str, where: str = "") -> None:
        """Say something about what was read all the same."""
        self.notes.append(Skipped(file, line, why, where))
