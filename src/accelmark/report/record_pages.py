"""The Records in full: data of their own pages in parts, and the index of which part has which.

Reading a Record with its raw samples and saying all that is in it takes a millisecond. What one file becomes
depends on no other, so very many of them are shared out to processes, which write their parts themselves
while the rest of the site is made.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path

from accelmark.record import Record
from accelmark.report.data import as_json, cut, cut_start, write_script
from accelmark.report.site import views
from accelmark.report.view import RecordView
from accelmark.store import Problem, read_file

#: A part of the Records' data, and of the index of where they are, in bytes.
PART, INDEX_PART = 1_500_000, 500_000
#: Longer texts are cut: in a name, in a field, a whole log.
MAX_NAME, MAX_FIELD, MAX_LOG = 1_000, 20_000, 200_000
#: A specification of raw samples that is larger is not drawn on the Record's page.
MAX_SPEC = 1_000_000
#: Files above which several processes share the work, and how many of them each takes at a time.
MANY, CHUNK = 1000, 200
_GROUPS = {
    "": "The Record",
    "job": "The Job: what was measured",
    "settings": "Settings: how it was measured",
    "metrics": "Metrics: what came out",
    "conditions": "Conditions",
    "system": "The machine",
    "software": "Software",
    "origin": "Where it comes from",
}
_FIELD = re.compile(r"[a-z0-9_.\[\]]{1,100}")
#: Units at the end of fields' names, as people write them.
_UNITS = {
    "s": "s",
    "ms": "ms",
    "min": "min",
    "gib": "GiB",
    "w": "W",
    "j": "J",
    "mhz": "MHz",
}

Doubts = Mapping[str, Sequence[str]]
#: A Record's id, and the part that it is in: `records-PART.js`.
Place = tuple[str, str]


@contextmanager
def writing(
    paths: Sequence[str], others: Sequence[Record], doubts: Doubts, folder: Path
) -> Iterator[Iterator[Place]]:
    """Write the Records of these files, and the others, while the block runs.

    It gets where each is, the files' first; whoever goes through them waits for what is still being written,
    and gets the `OSError` of a part that could not be. What is in a file that is no Record is passed over: it
    has been said when the tables were made.
    """
    rest = _later(others, doubts, folder)
    if len(paths) < MANY:
        yield chain(_files("0", paths, doubts, folder), rest)
        return
    chunks = [paths[place : place + CHUNK] for place in range(0, len(paths), CHUNK)]
    # Spawned and not forked: this process may have threads by now.
    pool = ProcessPoolExecutor(
        mp_context=multiprocessing.get_context("spawn"), initializer=_begin, initargs=(doubts, folder)
    )
    try:
        written = pool.map(_chunk, map(str, range(len(chunks))), chunks)
        yield chain(chain.from_iterable(written), rest)
    finally:
        pool.shutdown(cancel_futures=True)


def _later(records: Sequence[Record], doubts: Doubts, folder: Path) -> Iterator[Place]:
    yield from write(views(records, doubts), folder, "others")


def _files(series: str, paths: Sequence[str], doubts: Doubts, folder: Path) -> Iterator[Place]:
    found = (read_file(Path(path)) for path in paths)
    records = (outcome for outcome in found if not isinstance(outcome, Problem))
    yield from write(views(records, doubts), folder, series)


#: What a process of the pool was given when it began: sent once, since doubts can be many.
_given: list[tuple[Doubts, Path]] = []


def _begin(doubts: Doubts, folder: Path) -> None:
    _given.append((doubts, folder))
    # Records hold no cycles; looking for them among thousands of windows takes a third of the time.
    gc.disable()


def _chunk(series: str, paths: Sequence[str]) -> list[Place]:
    return list(_files(series, paths, *_given[0]))


def write(records: Iterable[RecordView], folder: Path, series: str) -> list[Place]:
    """Write Records in parts named after the series, and say where each is."""
    places: list[Place] = []
    part: list[str] = []
    size = number = 0
    for view in records:
        content = text(view)
        if part and size + len(content) > PART:
            _write_part(folder, f"{series}-{number}", part)
            part, size, number = [], 0, number + 1
        part.append(content)
        size += len(content)
        places.append((view.id, f"{series}-{number}"))
    if part:
        _write_part(folder, f"{series}-{number}", part)
    return places


def _write_part(folder: Path, name: str, part: Sequence[str]) -> None:
    write_script(folder, f"records-{name}", f"[{','.join(part)}]")


def write_index(places: Iterable[Place], folder: Path) -> tuple[int, int]:
    """Write which part has which Record, of each id the first; how many there are, and parts of the index."""
    where: dict[str, str] = {}
    for identity, part in places:
        where.setdefault(identity, part)
    buckets = max(1, math.ceil(sum(len(identity) + 16 for identity in where) / INDEX_PART))
    index: list[list[Place]] = [[] for _ in range(buckets)]
    for place in where.items():
        index[bucket(place[0], buckets)].append(place)
    for number, entries in enumerate(index):
        write_script(folder, f"index-{number}", as_json(entries))
    return len(where), buckets


def bucket(identity: str, buckets: int) -> int:
    """In which part of the index a Record is; `report.js` computes the same from a string's UTF-16 units."""
    return zlib.crc32(identity.encode("utf-16-le", "surrogatepass")) % buckets


def text(view: RecordView) -> str:
    """All that a Record's page shows, as JSON."""
    chart = "null" if view.chart is None else as_json(view.chart)
    too_large = len(chart) > MAX_SPEC
    content = {
        "id": view.id,
        "title": cut(view.title, MAX_NAME),
        "groups": list(_grouped(view.fields)),
        "flags": [[flag.kind, cut(flag.why, MAX_FIELD)] for flag in view.flags],
        "command": cut(view.command, MAX_FIELD),
        "log": cut_start(view.log_tail, MAX_LOG),
        "description": "There are too many raw samples to draw them here."
        if too_large
        else view.chart_description,
    }
    return f'{as_json(content)[:-1]},"chart":{"null" if too_large else chart}}}'


def _grouped(fields: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Fields under the headings that they belong to: words for the name, the name itself, the value."""
    groups: dict[str, list[tuple[str, str, str]]] = {name: [] for name in _GROUPS}
    for name, value in fields:
        group, _, rest = name.partition(".")
        if not rest or group not in _GROUPS:
            group, rest = "", name
        groups[group].append((_words(rest), cut(name, MAX_NAME), cut(value, MAX_FIELD)))
    for group, members in groups.items():
        if members:
            yield _GROUPS[group], members


# The same few hundred names come with every Record.
@lru_cache(maxsize=4096)
def _words(name: str) -> str:
    """`latency_ms.p99` as `latency › p99 (ms)`; names that are no field's stay as they are."""
    if not _FIELD.fullmatch(name):
        return cut(name, MAX_NAME)
    words, unit = [], ""
    for step in name.split("."):
        stem, _, end = step.rpartition("_")
        if stem and end in _UNITS:
            unit = f" ({_UNITS[end]})"
        words.append((stem if stem and end in _UNITS else step).replace("_", " "))
    return " › ".join(words) + unit
