"""The folder of a report: what may be written over, and that nothing is written outside of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from accelmark.errors import CannotWriteError
from accelmark.text import safe

#: Marks a folder as a report of ours, which may be made anew.
MARKER = ".accelmark-report"
#: Folders that a report makes, besides files at its top.
PARTS = ("assets", "charts", "data")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


def plain(name: str) -> str:
    """The name, if it is a plain file name that leads out of no folder; else a `ValueError`: our fault."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no plain file name")
    return name


def prepare(out: Path, force: bool, parts: Sequence[str] = ()) -> None:
    """Make the folder, empty of an earlier report, and `parts` in it.

    A `CannotWriteError` if it cannot be made, or holds something that is no report and `force` is not given;
    with `force` what is there stays, but for files of the same names.
    """
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise CannotWriteError(f"{safe(out)} is no folder; choose another with --out.")
        ours = (out / MARKER).is_file()
        if out.exists() and not ours and not force and any(out.iterdir()):
            raise CannotWriteError(
                f"{safe(out)} holds something that is no report of accelmark's; choose another folder with "
                f"--out, or write into it with --force."
            )
        out.mkdir(parents=True, exist_ok=True)
        if ours:
            _clear(out)
        (out / MARKER).write_text(
            "A report of accelmark's: made anew by accelmark report.\n", encoding="utf-8"
        )
        for part in parts:
            (out / plain(part)).mkdir(exist_ok=True)
    except OSError as error:
        raise CannotWriteError(
            f"cannot write {safe(out)}: {error.strerror}; choose another folder with --out."
        ) from error


def _clear(out: Path) -> None:
    for part in PARTS:
        if (out / part).is_dir() and not (out / part).is_symlink():
            shutil.rmtree(out / part)
    for path in out.iterdir():
        if path.is_file() and path.suffix in (".html", ".md", ".csv", ".json", ".tex", ".png"):
            path.unlink()


def write(out: Path, name: str, data: bytes) -> Path:
    """Write one file at the top of the folder; a name that is no plain file name is an error of ours."""
    path = out / plain(name)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CannotWriteError(f"cannot write {safe(path)}: {error.strerror}; free some space.") from error
    return path
