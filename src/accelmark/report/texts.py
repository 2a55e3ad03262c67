"""The Records' own pages as JSON texts; very many of them in several processes.

Reading a Record with its raw samples and drawing them takes milliseconds, which ten thousand Records make
half a minute of: what one file becomes depends on no other, so the files are shared out.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from accelmark.record import Record
from accelmark.report.render import record_text
from accelmark.report.site import views
from accelmark.store import Problem, read_file

#: Files to read above which several processes share the work.
MANY = 1000
CHUNK = 100

Doubts = Mapping[str, Sequence[str]]


def texts(paths: Sequence[str], others: Sequence[Record], doubts: Doubts) -> Iterator[tuple[str, str]]:
    """Id and text of every Record in these files and of the others, each id once, the files first.

    What is in a file that is no Record has been said when the tables were made.
    """
    seen = set()
    for identity, text in chain(_files(paths, doubts), map(record_text, views(others, doubts))):
        if identity not in seen:
            seen.add(identity)
            yield identity, text


def _files(paths: Sequence[str], doubts: Doubts) -> Iterator[tuple[str, str]]:
    if len(paths) < MANY:
        yield from _read(paths, doubts)
        return
    chunks = [paths[place : place + CHUNK] for place in range(0, len(paths), CHUNK)]
    # Spawned and not forked: this process may have threads by now.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(partial(_read, doubts=doubts), chunks):
            yield from found


def _read(paths: Sequence[str], doubts: Doubts) -> list[tuple[str, str]]:
    found = (read_file(Path(path)) for path in paths)
    records = [outcome for outcome in found if not isinstance(outcome, Problem)]
    return [record_text(view) for view in views(records, doubts)]
