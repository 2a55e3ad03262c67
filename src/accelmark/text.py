"""What is printed: text from Records made harmless, numbers with the digits they support, tables.

Names and paths in a Record may come from anybody. Nothing from a Record reaches a terminal before `safe`.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Collection, Sequence

#: Longer cells are cut: a terminal is no place for a megabyte.
MAX_CELL = 300
#: Numbers from here on are shown as powers of ten: nobody counts so many digits.
UNREADABLE = 1e18


def safe(text: object) -> str:
    """Text that cannot steer a terminal: controls, escapes and direction marks are shown as `\\uXXXX`."""
    string = str(text)
    if len(string) > MAX_CELL:
        string = string[: MAX_CELL - 1] + "…"
    if string.isascii() and string.isprintable():
        return string
    return "".join(_visible(character) for character in string)


def _visible(character: str) -> str:
    # Cc: controls, Cf: direction marks and zero-width characters, Cs/Co/Cn: what no font shows.
    if character in "\u2028\u2029" or unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"}:
        return f"\\u{ord(character):04x}"
    return character


def number(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, in plain notation, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    if abs(value) >= UNREADABLE:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.{decimals}f}"


def value_and_interval(value: float, ci95: tuple[float, float] | None) -> str:
    """`1,234 ± 12`: the half-width with two digits at most, the value to the same place.

    An interval that is not symmetric shows its wider side. Without an interval the value is shown as it
    is, since nothing says how many of its digits hold.
    """
    if ci95 is None:
        return f"{value:,.10g}"
    half = max(ci95[1] - value, value - ci95[0])
    if half <= 0:
        return f"{number(value, 6)} ± 0"
    if half >= value:
        return f"{number(value, 2)} ± {number(half, 2)}"
    # Two digits when the first is 1 or 2 (a step from 1 to 2 would be a factor of two), one otherwise.
    exponent = math.floor(math.log10(half))
    place = exponent - 1 if half / 10**exponent < 3 else exponent
    decimals = max(0, -place)
    return f"{round(value, -place):,.{decimals}f} ± {round(half, -place):,.{decimals}f}"


_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def quantity(value: float, ci95: tuple[float, float] | None, unit: str) -> tuple[str, str]:
    """Value and interval as text, and the unit; FLOP/s and B/s get the prefix that keeps them readable."""
    if not unit.startswith(("FLOP/", "B/")):
        return value_and_interval(value, ci95), unit
    power = min(max(0, math.floor(math.log10(value) / 3)), len(_PREFIXES) - 1)
    scale = 1000.0**power
    scaled = None if ci95 is None else (ci95[0] / scale, ci95[1] / scale)
    return value_and_interval(value / scale, scaled), _PREFIXES[power] + unit


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    """Print a table to standard output: ruled on a terminal, aligned plain text in a pipe.

    `right` holds the indices of columns that are aligned to the right. Cells are made `safe` here.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(header_style="bold", box=None, pad_edge=False)
        for index, column in enumerate(columns):
            # A narrow terminal folds words; a number on two lines would be read as two.
            numeric = index in right
            table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(column), *(len(row[i]) for row in cells), 0) for i, column in enumerate(columns)]

    def line(values: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if i in right else value.ljust(width)
            for i, (value, width) in enumerate(zip(values, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    out = [line(columns), *(line(row) for row in cells)]
    sys.stdout.write("\n".join(out) + "\n")
