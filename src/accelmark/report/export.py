"""The report's tables as files for other programs: Markdown, CSV, JSON, LaTeX.

Text of a Record may come from anybody: in each format it stays text. Lines are written one by one, so that
many need no more memory than the tables themselves. What a format cannot show is shown as `\\uXXXX`.

`json`, for programs: a list of tables, each an object of `name`, `page`, `title`, `intro`, `columns`
(objects of `title`, `numeric`, `help`) and `lines`. A line has `id` (the Record's), `cells` in the order of
the columns (objects of `text`, which carries the unit, and `value`: what the column is sorted by, the number
in the text or null) and `flags` (objects of `kind` and `why`).

`csv`, for programs and spreadsheets: a file a table; `id`, the columns, `flags`. Beside a column that holds
numbers stands `TITLE (value)` with the number alone. A text that a spreadsheet would take for a formula has
an apostrophe before it.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO

from accelmark.errors import CannotWriteError, unknown
from accelmark.report.view import Cell, Line, Table
from accelmark.text import safe, visible

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
TITLE = "Deep-learning performance"


def write(tables: Sequence[Table], format: str, out: Path) -> list[Path]:
    """Write the tables into the folder `out`, which is made if it is not there; the files written.

    Files of the same names are replaced, each whole. Raises `UsageError` for an unknown format and
    `CannotWriteError` where the files cannot be kept.
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    names = [table.name for table in tables]
    for name in names:
        if not _NAME.fullmatch(name) or names.count(name) > 1:
            raise CannotWriteError(f"{safe(name)!r} cannot name the file of a table, or names two.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        return FORMATS[format](tables, out)
    except OSError as error:
        # A temporary file's name says nothing to a user: the folder does.
        why = {errno.EEXIST: "it is a file"}.get(error.errno or 0, error.strerror or str(error))
        raise CannotWriteError(
            f"cannot write {format} into {safe(out)}: {why}; choose another folder with --out."
        ) from error


@contextmanager
def _file(path: Path) -> Iterator[IO[str]]:
    """A file that is whole or not there. A link in its place is replaced and not followed."""
    with tempfile.NamedTemporaryFile(
        "w",
        dir=path.parent,
        prefix=".write-",
        delete=False,
        encoding="utf-8",
        # A lone surrogate is no character that UTF-8 has.
        errors="backslashreplace",
        newline="",
    ) as file:
        try:
            yield file
            file.flush()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _value(cell: Cell) -> int | float | None:
    """The number of a cell, whole where it is."""
    if cell.order is None or not math.isfinite(cell.order):
        return None
    return int(cell.order) if cell.order.is_integer() and abs(cell.order) < 2**53 else cell.order


def _flags(line: Line) -> str:
    return "; ".join(f"{flag.kind}: {flag.why}" for flag in line.flags)


def _as_text(table: Table) -> tuple[list[str], Iterator[list[str]]]:
    """Titles and rows of a table for readers: flags in words are the last column."""
    titles = [*(column.title for column in table.columns), "Flags"]
    return titles, ([*(cell.text for cell in line.cells), _flags(line)] for line in table.lines)


def _write_markdown(tables: Sequence[Table], out: Path) -> list[Path]:
    path = out / "report.md"
    with _file(path) as file:
        file.write(f"# {_markdown(TITLE)}\n")
        for table in tables:
            titles, rows = _as_text(table)
            rules = ["--:" if column.numeric else ":--" for column in table.columns]
            file.write(f"\n## {_markdown(table.title)}\n\n{_markdown(table.intro)}\n\n")
            file.write(_markdown_row(map(_markdown, titles)))
            file.write(_markdown_row([*rules, ":--"]))
            for row in rows:
                file.write(_markdown_row(map(_markdown, row)))
    return [path]


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


_MARKUP = re.compile(r"://|www\.|[\\`*_\[\]<>~$#&|@]")
_MARKDOWN = {
    "://": "&#58;//",
    "www.": "www&#46;",
    # A pipe ends a cell even after a backslash in some readers.
    "|": "&#124;",
    # GitHub makes links of what looks like mail, however it is escaped, but not of code.
    "@": "`@`",
}


def _markdown(text: str) -> str:
    """Text as it reads, in GitHub's Markdown: no markup, and no link made of an address."""
    return _MARKUP.sub(lambda found: _MARKDOWN.get(found[0], f"\\{found[0]}"), visible(text))


def _write_csv(tables: Sequence[Table], out: Path) -> list[Path]:
    paths = []
    for table in tables:
        path = out / f"{table.name}.csv"
        with _file(path) as file:
            valued = [
                any(line.cells[i].order is not None for line in table.lines)
                for i in range(len(table.columns))
            ]
            titles = [
                title
                for column, extra in zip(table.columns, valued, strict=True)
                for title in (column.title, *([f"{column.title} (value)"] if extra else []))
            ]
            writer = csv.writer(file, lineterminator="\r\n")
            writer.writerow(["id", *map(_defused, titles), "flags"])
            for line in table.lines:
                row: list[object] = [_defused(line.id)]
                for cell, extra in zip(line.cells, valued, strict=True):
                    row += [_defused(cell.text), *([_value(cell)] if extra else [])]
                writer.writerow([*row, _defused(_flags(line))])
        paths.append(path)
    return paths


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _defused(text: str) -> str:
    """An apostrophe before what a spreadsheet would run."""
    if text.startswith(_FORMULA) and not _PLAIN_NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _write_json(tables: Sequence[Table], out: Path) -> list[Path]:
    path = out / "report.json"
    with _file(path) as file:
        file.write("[")
        for place, table in enumerate(tables):
            head = {
                "name": table.name,
                "page": table.page,
                "title": table.title,
                "intro": table.intro,
                "columns": [
                    {"title": column.title, "numeric": column.numeric, "help": column.help}
                    for column in table.columns
                ],
            }
            file.write((",\n" if place else "\n") + json.dumps(head)[:-1] + ', "lines": [')
            for number, line in enumerate(table.lines):
                file.write((",\n" if number else "\n") + json.dumps(_line(line)))
            file.write("\n]}")
        file.write("\n]\n")
    return [path]


def _line(line: Line) -> dict[str, object]:
    return {
        "id": line.id,
        "cells": [{"text": cell.text, "value": _value(cell)} for cell in line.cells],
        "flags": [{"kind": flag.kind, "why": flag.why} for flag in line.flags],
    }


_LATEX_HEAD = r"""% Compiles as it is, with pdfLaTeX, XeLaTeX, LuaLaTeX or Tectonic.
\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=12mm]{geometry}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\setlength{\tabcolsep}{3pt}
\setlength{\parindent}{0pt}
\setlength{\LTleft}{0pt}
\sloppy
\begin{document}
"""
#: Characters that fit side by side into a line of the page, by size of type.
_SIZES = (("footnotesize", 165), ("scriptsize", 190), ("tiny", 250))
#: Longer words are broken without a hyphen, which would change them.
_LATEX_WORD = 16
#: Marks where; no visible text has it.
_BREAK = "\x00"


def _write_latex(tables: Sequence[Table], out: Path) -> list[Path]:
    path = out / "report.tex"
    with _file(path) as file:
        file.write(f"{_LATEX_HEAD}\\section*{{{_latex(TITLE)}}}\n")
        for table in tables:
            titles, rows = _as_text(table)
            size, widths = _latex_widths(titles, _as_text(table)[1])
            sides = [*(column.numeric for column in table.columns), False]
            columns = "\n".join(
                f">{{\\{'raggedleft' if right else 'raggedright'}\\arraybackslash}}"
                f"p{{\\dimexpr {width:.4f}\\linewidth-2\\tabcolsep\\relax}}"
                for right, width in zip(sides, widths, strict=True)
            )
            file.write(f"\n\\subsection*{{{_latex(table.title)}}}\n{_latex(table.intro)}\n\n")
            file.write(f"{{\\{size}\n\\begin{{longtable}}{{\n{columns}}}\n\\toprule\n")
            file.write(_latex_row(titles) + "\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n")
            for row in rows:
                file.write(_latex_row(row))
            file.write("\\end{longtable}}\n")
        file.write("\\end{document}\n")
    return [path]


def _latex_row(cells: Sequence[str]) -> str:
    # The space after a row also keeps a bracket in the next one from being taken for an argument.
    return f"{' & '.join(map(_latex, cells))} \\\\[1.5pt]\n"


def _latex_widths(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, list[float]]:
    """The largest size of type that holds the table's words, and each column's share of the line.

    A column has room for its longest word; what is left goes to those with long texts.
    """
    words, texts = [1] * len(titles), [1] * len(titles)
    for row in chain([titles], rows):
        for i, text in enumerate(row):
            shown = visible(text)
            longest = max(map(len, shown.split()), default=0)
            words[i] = max(words[i], min(longest, _LATEX_WORD))
            texts[i] = max(texts[i], min(len(shown), 4 * _LATEX_WORD))
    # A little more than the word: characters are not all as wide as the mean.
    least = [word + 2 for word in words]
    more = [max(0, text - word) for text, word in zip(texts, words, strict=True)]
    size, room = next((each for each in _SIZES if sum(least) <= each[1]), _SIZES[-1])
    spare = min(max(0, room - sum(least)) / max(1, sum(more)), 1)
    wanted = [each + spare * extra for each, extra in zip(least, more, strict=True)]
    total = max(sum(wanted), room)
    return size, [each / total for each in wanted]


#: Marks as Unicode has them after a letter, and LaTeX's commands before it.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
_LATEX = {
    "\\": "\\textbackslash{}",
    "{": "\\{",
    "}": "\\}",
    "$": "\\$",
    "&": "\\&",
    "#": "\\#",
    "%": "\\%",
    "_": "\\_",
    "^": "\\textasciicircum{}",
    "~": "\\textasciitilde{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    # Two of these in a row, or one after a mark, would become another character.
    "-": "-{}",
    "'": "'{}",
    "`": "\\`{}",
    ",": ",{}",
    '"': "\\textquotedblright{}",
    "±": "\\ensuremath{\\pm}",
    "×": "\\ensuremath{\\times}",
    "÷": "\\ensuremath{\\div}",
    "≠": "\\ensuremath{\\neq}",
    "≤": "\\ensuremath{\\leq}",
    "≥": "\\ensuremath{\\geq}",
    "≈": "\\ensuremath{\\approx}",
    "→": "\\ensuremath{\\rightarrow}",
    "µ": "\\ensuremath{\\mu}",
    "μ": "\\ensuremath{\\mu}",
    "°": "\\ensuremath{^{\\circ}}",
    "·": "\\ensuremath{\\cdot}",
    "²": "\\ensuremath{^{2}}",
    "³": "\\ensuremath{^{3}}",
    "–": "\\textendash{}",
    "—": "\\textemdash{}",
    "‘": "\\textquoteleft{}",
    "’": "\\textquoteright{}",
    "“": "\\textquotedblleft{}",
    "”": "\\textquotedblright{}",
    "…": "\\ldots{}",
    "ß": "\\ss{}",
    _BREAK: "\\allowbreak{}",
}


class _Latex(dict[int, str]):
    """What `str.translate` asks for each character; answers are kept."""

    def __missing__(self, code: int) -> str:
        self[code] = told = _latex_character(chr(code))
        return told


def _latex_character(character: str) -> str:
    if character.isascii():
        return character
    parts = unicodedata.normalize("NFD", character)
    letter, mark = parts[0], parts[1:]
    if letter.isascii() and letter.isalpha() and mark in _ACCENTS:
        return f"\\{_ACCENTS[mark]}{{{letter}}}"
    # No font that comes with every LaTeX has it.
    return f"\\textbackslash{{}}u{ord(character):04x}"


_LATEX_TABLE = _Latex(str.maketrans(_LATEX))
_LATEX_PIECE = re.compile(rf"\S{{{_LATEX_WORD}}}(?=\S)")


def _latex(text: str) -> str:
    """Text as it reads, in LaTeX, whatever is in it; long words may be broken."""
    return _LATEX_PIECE.sub(rf"\g<0>{_BREAK}", visible(text)).translate(_LATEX_TABLE)


FORMATS: dict[str, Callable[[Sequence[Table], Path], list[Path]]] = {
    "markdown": _write_markdown,
    "csv": _write_csv,
    "json": _write_json,
    "latex": _write_latex,
}
