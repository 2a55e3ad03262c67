"""An index over folders of Records, so that a table over very many of them does not read them all again.

The folder of JSON files stays the truth. The index is a Parquet file in the user's cache folder: a row for
each file with its size and time of change, what tables select and sort by, and the Record without its raw
samples. DuckDB answers from it. Files that are new or have changed are read again; a lost or broken index is
made anew.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from accelmark.record import Record
from accelmark.store import Problem, cache_folder, json_files, read_file

#: The index's columns and their Arrow types.
COLUMNS = {
    "path": "string",
    "changed_ns": "int64",
    "bytes": "int64",
    "network": "string",
    "status": "string",
    "started": "string",
    "record": "string",
    "problem": "string",
    "line": "int64",
}
#: Files to read above which several processes share the work.
MANY = 2000


@dataclass
class Answer:
    """The newest Records that were asked for, how many there are of each status, and unreadable files."""

    records: list[Record] = field(default_factory=list)
    count: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def select(
    paths: Sequence[Path],
    *,
    network: str | None = None,
    status: str | None = None,
    limit: int | None = None,
) -> Answer:
    """The Records in these files and folders, newest last, without raw samples; `limit` keeps the newest."""
    answer = Answer()
    with duckdb.connect() as database:
        _bring_up_to_date(paths, database)
        where = "problem is null and ($1 is null or network = $1) and ($2 is null or status = $2)"
        statuses = database.execute(
            f"select status, count(*) from entries where {where} group by status order by 2 desc",  # noqa: S608
            [network, status],
        ).fetchall()
        answer.statuses = dict(statuses)
        answer.count = sum(answer.statuses.values())
        rows = database.execute(
            f"select record from entries where {where} order by started desc, path desc limit $3",  # noqa: S608
            [network, status, limit if limit is not None else answer.count],
        ).fetchall()
        answer.records = [Record.model_validate_json(record) for (record,) in reversed(rows)]
        answer.problems = [
            Problem(Path(path), line, message)
            for path, line, message in database.execute(
                "select path, line, problem from entries where problem is not null order by path"
            ).fetchall()
        ]
    return answer


def _bring_up_to_date(paths: Sequence[Path], database: duckdb.DuckDBPyConnection) -> None:
    """Give the database the relation `entries` over all files, reading only those that are new or changed."""
    files = {}
    for entry in json_files(paths):
        stat = entry.stat()
        files[os.fspath(entry)] = (stat.st_mtime_ns, stat.st_size)
    cache = _cache_file(paths)
    known = _open(cache, database)
    stale = [path for path, seen in files.items() if known.get(path) != seen]
    if known and not stale and len(known) == len(files):
        return

    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
    index = pa.Table.from_pylist(
        [{**row, **_seen(files[row["path"]])} for row in _rows(stale)], schema=schema
    )
    if known:
        old = pq.read_table(cache)
        kept = [files.get(path) == (changed, size) for path, changed, size in _keys(old)]
        index = pa.concat_tables([old.filter(pa.array(kept, pa.bool_())), index])
    database.register("entries", index)
    # A cache that cannot be kept costs time and nothing else.
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = cache.with_suffix(f".{os.getpid()}")
        pq.write_table(index, temporary, compression="zstd", row_group_size=20_000)
        temporary.replace(cache)


def _open(cache: Path, database: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, int]]:
    """Make `entries` a view of the index file, and return the state of each file that it knows."""
    if not cache.exists():
        return {}
    try:
        entries = database.read_parquet(str(cache))
        if entries.columns != list(COLUMNS):
            return {}
        entries.create_view("entries")
        rows = entries.project("path, changed_ns, bytes").fetchall()
    except duckdb.Error:
        return {}
    return {path: (changed, size) for path, changed, size in rows}


def _keys(table: Any) -> Iterator[tuple[str, int, int]]:
    columns = (table[name].to_pylist() for name in ("path", "changed_ns", "bytes"))
    return zip(*columns, strict=True)


def _seen(seen: tuple[int, int]) -> dict[str, int]:
    return {"changed_ns": seen[0], "bytes": seen[1]}


def _cache_file(paths: Sequence[Path]) -> Path:
    names = "\0".join(str(path.resolve()) for path in paths)
    return cache_folder() / f"index-{hashlib.sha256(names.encode()).hexdigest()[:24]}.parquet"


def _rows(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    if len(paths) < MANY:
        yield from map(_row, paths)
        return
    # Records hold no cycles; looking for them among thousands of windows takes a third of the time.
    with ProcessPoolExecutor(initializer=gc.disable) as pool:
        yield from pool.map(_row, paths, chunksize=500)


def _row(path: str) -> dict[str, Any]:
    outcome = read_file(Path(path))
    if isinstance(outcome, Problem):
        return {"path": path, "problem": outcome.message, "line": outcome.line}
    return {
        "path": path,
        "network": outcome.job.network,
        "status": outcome.status.value,
        "started": outcome.started_at.isoformat() if outcome.started_at else "",
        "record": outcome.model_dump_json(exclude_none=True, exclude={"samples", "log_tail"}),
    }
