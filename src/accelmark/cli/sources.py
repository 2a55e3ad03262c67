"""Where Records come from on the command line: folders and files of them, published sets, single rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from accelmark import published, store
from accelmark.errors import UnreadableInputError
from accelmark.record import Record
from accelmark.text import safe


def read_own(paths: Sequence[Path]) -> list[Record]:
    """The Records in these folders and files; what cannot be read is a warning, none at all an error."""
    found = store.read(paths)
    for problem in found.problems:
        print(f"accelmark: warning: {problem}", file=sys.stderr)
    return need_records(paths, found.records)


def need_records(paths: Sequence[Path], records: list[Record]) -> list[Record]:
    """The Records that were read in these paths; none at all is an error."""
    if not records:
        where = " ".join(str(path) for path in paths)
        raise UnreadableInputError(safe(f"{where} holds no Record that can be read."))
    return records


def beside(name: str) -> list[Record]:
    """What a word after `--with` means: `published`, one set (with its study's figures), a row, or a path.

    A set's name is taken before a folder of that name.
    """
    if name == published.ALL:
        return [record for each in published.SETS for record in beside(each)]
    if name in published.SETS:
        return [*published.load(name), *published.figures(name)]
    if published.is_id(name):
        return [published.find(name)]
    return read_own([Path(name)])


def read_any(names: Sequence[str]) -> list[Record]:
    """The Records that a list of such words and paths means, each once."""
    found = [record for name in names for record in beside(name)]
    return list({record.id: record for record in found}.values())
