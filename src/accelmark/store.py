"""The truth on disk: a folder of Records, one JSON file each.

Files are self-contained, so folders can be merged by copying and kept in git; only the times of single calls
are in Parquet files beside them (`ID.calls.parquet`), which statistics and reports do without. Nothing in a
Record is ever used as a path: a file's name is the Record's id when that is plain, and a digest of it
otherwise.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from accelmark.errors import CannotWriteError, UnreadableInputError
from accelmark.record import SCHEMA_VERSION, Calls, Record
from accelmark.text import safe

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
#: A run of a whole suite writes a few megabytes; less than this free is trouble for more than us.
MIN_FREE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Problem:
    """A file that is no readable Record: where, and what is wrong. `line` is 1-based."""

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{safe(place)}: {safe(self.message)}"


@dataclass
class ReadResult:
    """The Records that could be read, in order of path, and what could not."""

    records: list[Record] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Store:
    """A folder of Records that is written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make the folder and prove that it can be written to; a `CannotWriteError` says why not."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".probe-") as probe:
                probe.write(b"0" * 4096)
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        if free < MIN_FREE_BYTES:
            raise CannotWriteError(
                f"cannot keep results in {self.folder}: only {free / 2**20:.0f} MiB are free on its disk; "
                f"free some space or choose another folder with --out."
            )

    def write(self, record: Record) -> Path:
        """Write one Record, replacing an earlier one with the same id. It is whole on disk or not there."""
        path = self.folder / file_name(record.id)
        data = record.text(indent=1).encode() + b"\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if record.samples.calls is not None:
                self._write_calls(path.with_suffix(".calls.parquet"), record.samples.calls)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".write-", delete=False) as file:
                try:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.unlink(file.name)
                    raise
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        return path

    def _write_calls(self, path: Path, calls: Calls) -> None:
        """Every call, in columns of a Parquet file beside the Record, which would be many times as long."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        temporary = path.with_name(f".write-{path.name}")
        pq.write_table(pa.table(calls.model_dump()), temporary, compression="zstd")
        os.replace(temporary, path)

    def write_many(self, records: Iterable[Record]) -> int:
        """Write Records as they come; the number written."""
        count = 0
        for record in records:
            self.write(record)
            count += 1
        return count


def _cannot_write(folder: Path, error: OSError) -> CannotWriteError:
    why = {
        errno.ENOSPC: "the disk is full; free some space",
        errno.EDQUOT: "the quota of the disk is used up; free some space",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "no permission to write there; change it with chmod",
        errno.ENOTDIR: "a part of the path is a file",
        errno.EEXIST: "it is a file",
    }.get(error.errno or 0, error.strerror or str(error))
    return CannotWriteError(f"cannot keep results in {folder}: {why}, or choose another folder with --out.")


def file_name(record_id: str) -> str:
    """The file name of a Record: its id where that is a plain name, else a digest of it."""
    if _PLAIN_NAME.fullmatch(record_id):
        return f"{record_id}.json"
    return f"{hashlib.sha256(record_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def cache_folder() -> Path:
    """Where what can be made again is kept: in the user's cache folder, never beside Records."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "accelmark"


def json_files(paths: Iterable[Path]) -> Iterator[os.DirEntry[str] | Path]:
    """Every `.json` file in these files and folders, hidden ones left out, in no order."""
    for path in paths:
        if path.is_dir():
            yield from _walk(path)
        elif path.exists():
            yield path
        else:
            raise UnreadableInputError(f"{safe(path)} does not exist; give a folder of Records or a file.")


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except OSError as error:
        raise UnreadableInputError(f"{safe(folder)} cannot be read: {error.strerror}.") from error
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        elif entry.name.endswith(".json"):
            yield entry


def read(paths: Iterable[Path]) -> ReadResult:
    """Read all Records in these files and folders; what cannot be read is a `Problem`, the rest is read."""
    result = ReadResult()
    for path in sorted(map(os.fspath, json_files(paths))):
        outcome = read_file(Path(path))
        if isinstance(outcome, Problem):
            result.problems.append(outcome)
        else:
            result.records.append(outcome)
    return result


def read_file(path: Path) -> Record | Problem:
    """Read one file; never raises for what is in it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Problem(path, None, f"cannot be read: {error.strerror}")
    try:
        record = Record.model_validate_json(data)
    except ValidationError as error:
        return _problem(path, data, error)
    if record.schema_version > SCHEMA_VERSION:
        return _newer(path, data, record.schema_version)
    return record


def _newer(path: Path, data: bytes, version: int) -> Problem:
    return Problem(
        path,
        _line_of(data, ("schema_version",)),
        f"written with Record schema {version}, this accelmark reads up to {SCHEMA_VERSION}; "
        f"upgrade accelmark",
    )


def _problem(path: Path, data: bytes, error: ValidationError) -> Problem:
    # A Record of a newer schema usually fails on a field that is new; the version is the reason to give.
    version = re.search(rb'"schema_version"\s*:\s*(\d{1,9})\b', data)
    if version and int(version[1]) > SCHEMA_VERSION:
        return _newer(path, data, int(version[1]))
    first = error.errors(include_url=False, include_input=False)[0]
    message = first["msg"]
    if first["type"] == "json_invalid":
        place = re.search(r"at line (\d+) column (\d+)", message)
        text = re.sub(r"^Invalid JSON: | at line \d+ column \d+$", "", message)
        return Problem(path, int(place[1]) if place else None, f"not valid JSON: {text}")
    location = ".".join(str(part) for part in first["loc"])
    return Problem(path, _line_of(data, first["loc"]), f"not a Record: {location}: {message}")


def _line_of(data: bytes, location: tuple[int | str, ...]) -> int | None:
    """The line of a field, found by its keys in order; the deepest key that is there counts."""
    position = 0
    found = False
    for key in location:
        if isinstance(key, str):
            match = re.compile(rb'"' + re.escape(key.encode()) + rb'"\s*:').search(data, position)
            if match:
                position, found = match.start(), True
    return data.count(b"\n", 0, position) + 1 if found else None
