"""Log files line by line, in constant memory, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

#: A longer line is cut to this: no log line that carries a figure is, and a file without line ends must not
#: fill the memory.
MAX_LINE = 1 << 20


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line's 1-based number and its bytes, line end included where the file has one.

    Bytes, because most lines of most logs are looked at only to be passed over: an importer searches for
    what it knows and decodes (`text`) what it found. A last line without a line end may be cut off. Raises
    `OSError` if the file cannot be read.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(MAX_LINE)
                line += b"\n" if rest else b""
            yield number, line


def text(line: bytes) -> str:
    """A line as text, without its line end; bytes that are no UTF-8 become U+FFFD and never a figure."""
    return line.rstrip(b"\r\n").decode("utf-8", errors="replace")
