"""What is printed: text from Records made harmless, numbers with the digits they support, tables, bars.

Names and paths in a Record may come from anybody. Nothing from a Record reaches a terminal before `safe`.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Longer cells are cut: a terminal is no place for a megabyte.
MAX_CELL = 300
#: No table fits into less; on a terminal that is narrower still, the terminal itself breaks the lines.
MIN_WIDTH = 40
#: A column of words is folded to this width before another column is left out.
FOLDED = 16
GAP = 2
#: Outside of these, plain notation is a row of zeros.
_PLAIN = (1e-9, 1e15)
#: Numbers from here on are shown as powers of ten: nobody counts so many digits.
UNREADABLE = 1e18


def safe(text: object) -> str:
    """Text that cannot steer a terminal, cut where it is too long for one."""
    string = str(text)
    if len(string) > MAX_CELL:
        string = string[: MAX_CELL - 1] + "…"
    return visible(string)


def visible(text: str) -> str:
    """Controls, escapes and direction marks are shown as `\\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


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
    if not all(_PLAIN[0] <= part < _PLAIN[1] for part in (value, half)):
        return f"{number(value)} ± {number(half, 2)}"
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
    scale, prefix = readable(value, unit)
    if scale == 1:
        return value_and_interval(value, ci95), unit
    scaled = None if ci95 is None else (ci95[0] / scale, ci95[1] / scale)
    return value_and_interval(value / scale, scaled), prefix + unit


def readable(value: float, unit: str) -> tuple[float, str]:
    """What FLOP/s and B/s are divided by to be readable, and the prefix that says so; other units stay."""
    if not unit.startswith(("FLOP/", "B/")):
        return 1.0, ""
    power = min(max(0, math.floor(math.log10(value) / 3)), len(_PREFIXES) - 1)
    return 1000.0**power, _PREFIXES[power]


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def draws_bars() -> bool:
    """Whether standard output is a terminal that shows block characters."""
    if not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    try:
        (_EIGHTHS + _LEFTWARDS + _LIGHT).encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


#: A cell of a bar, from nothing to full. Only halves grow to the left, so both sides of 1x are in halves.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_RIGHTWARDS = " ▌█"
_LEFTWARDS = " ▐█"
#: Where a value may lie by its interval.
_LIGHT = "░"


def bar(value: float, largest: float, ci95: tuple[float, float] | None = None, width: int = 10) -> str:
    """A bar of so many characters for `largest`; an interval wide enough to be seen is its lighter end."""
    if not 0 < value <= largest or not math.isfinite(largest):
        return ""
    scale = width / largest
    solid, light = _spans(value * scale, tuple(bound * scale for bound in ci95 or ()))
    # What is there is never drawn as nothing.
    return _cells(max(solid, 1 / 8), light, width, _EIGHTHS).rstrip()


#: Differences of less than this look small, however small all others are.
_LEAST_EXTENT = 1.25


def bar_extent(ratios: Iterable[float]) -> float:
    """The ratio at the ends of `ratio_bar`: the largest of these, up or down."""
    return max((_LEAST_EXTENT, *(max(ratio, 1 / ratio) for ratio in ratios)))


#: The heading of `ratio_bar`s, its mark above theirs.
RATIO_BAR = "less │ more"


def bar_scale(extent: float, intervals: bool) -> str:
    """What stands under a table of `ratio_bar`s."""
    light = "; light: the 95 % interval" if intervals else ""
    return f"bars end at {number(1 / extent, 3)}x and {number(extent, 3)}x{light}"


def ratio_bar(ratio: float, ci95: tuple[float, float] | None, extent: float, side: int = 5) -> str:
    """A ratio to the left or right of a mark at 1x, on a logarithmic scale.

    `extent` is the ratio that fills `side` characters; larger ones are cut there. The interval is lighter
    where it is wide enough to be seen.
    """
    if ratio <= 0 or extent <= 1:
        return ""

    def place(value: float) -> float:
        return max(-side, min(side, side * math.log(value) / math.log(extent))) if value > 0 else -side

    value = place(ratio)
    low, high = sorted(map(place, ci95)) if ci95 else (value, value)
    right = _spans(value, (low, high))
    left = _spans(-value, (-high, -low))
    return _cells(*left, side, _LEFTWARDS)[::-1] + "│" + _cells(*right, side, _RIGHTWARDS)


def _spans(value: float, interval: Sequence[float]) -> tuple[float, float]:
    """How far a bar is solid and how far light. An interval of less than a character would not be seen."""
    if interval and interval[1] - interval[0] >= 1:
        return interval[0], interval[1]
    return value, value


def _cells(solid: float, light: float, width: int, parts: str) -> str:
    """Characters from the foot of a bar to its head."""
    text = ""
    for i in range(width):
        part = parts[round(max(0.0, min(1.0, solid - i)) * (len(parts) - 1))]
        lit = light - max(float(i), solid)
        text += _LIGHT if part != parts[-1] and lit >= 0.5 else part
    return text


def say(text: str) -> None:
    """Print a line; on a terminal it is folded between words. `text` is `safe` already."""
    if not sys.stdout.isatty():
        sys.stdout.write(text + "\n")
        return
    from rich.text import Text

    _print(Text(text))


def print_notes(notes: Sequence[str]) -> None:
    """Print sentences under a table with the numbers that its rows have."""
    from rich.table import Column, Table
    from rich.text import Text

    grid = Table.grid("", Column(overflow="fold"), padding=(0, GAP, 0, 0))
    for place, note in enumerate(notes, 1):
        grid.add_row(Text(f"{place:>3}"), Text(safe(note)))
    if notes:
        _print(grid)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    drop: Sequence[int] = (),
) -> Collection[int]:
    """Print a table to standard output: fitted to a terminal's width, aligned plain text in a pipe.

    `right` holds the indices of columns that are aligned to the right and never folded, since a number on
    two lines would be read as two. `drop` holds those of columns that a narrow terminal may do without, the
    least important first. Cells are made `safe` here. Returns the indices of what is shown.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        return _print_fitted(columns, cells, right, drop)
    widths = [max(len(column), *(len(row[i]) for row in cells), 0) for i, column in enumerate(columns)]

    def line(values: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if i in right else value.ljust(width)
            for i, (value, width) in enumerate(zip(values, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    out = [line(columns), *(line(row) for row in cells)]
    sys.stdout.write("\n".join(out) + "\n")
    return range(len(columns))


def _terminal_width() -> int:
    return max(MIN_WIDTH, shutil.get_terminal_size().columns)


def _console() -> Console:
    from rich.console import Console

    return Console(width=_terminal_width(), highlight=False, emoji=False, markup=False)


def _print(renderable: RenderableType) -> None:
    _console().print(renderable)


def _print_fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], drop: Sequence[int]
) -> Collection[int]:
    """As many columns as fit, words folded; where not even the needed ones fit, a block of lines a row."""
    from rich.table import Table
    from rich.text import Text

    width = _terminal_width()
    measures = [_measure(title, [row[i] for row in rows], i in right) for i, title in enumerate(columns)]
    natural, folded, broken = zip(*measures, strict=True)
    # A droppable column without any content is no loss.
    candidates = [i for i in drop if not rows or any(row[i] for row in rows)]
    kept = [i for i in range(len(columns)) if i not in drop]
    for i in reversed(candidates):
        if _widths([*kept, i], natural, folded, width):
            kept.append(i)
    kept.sort()
    widths = _widths(kept, natural, folded, width) or _widths(kept, natural, broken, width)
    if not widths:
        _print_blocks(columns, rows)
        return range(len(columns))
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for i in kept:
        table.add_column(
            Text(columns[i]),
            justify="right" if i in right else "left",
            vertical="top",
            overflow="fold",
            width=widths[i],
        )
    for row in rows:
        table.add_row(*(Text(row[i]) for i in kept))
    _print(table)
    missing = [columns[i] for i in candidates if i not in kept]
    if missing:
        say(f"no room here for {', '.join(missing)}; a wider terminal or a pipe shows all columns")
    return kept


def _measure(title: str, cells: Sequence[str], figures: bool) -> tuple[int, int, int]:
    """A column's width: unfolded, folded between words, and folded inside of words. Figures stay whole."""
    from rich.cells import cell_len

    natural = max(map(cell_len, (title, *cells)))
    if figures:
        whole = max(map(cell_len, (*title.split(), *cells)), default=0)
        return natural, whole, whole
    word = max((cell_len(word) for text in (title, *cells) for word in text.split()), default=0)
    least = min(natural, FOLDED)
    return natural, max(word, least), least


def _widths(
    kept: Sequence[int], natural: Sequence[int], least: Sequence[int], width: int
) -> dict[int, int] | None:
    """Widths of these columns that fill `width` at most, the widest folded first; None if none do."""
    widths = {i: natural[i] for i in kept}
    while sum(widths.values()) + GAP * (len(kept) - 1) > width:
        foldable = [i for i in kept if widths[i] > least[i]]
        if not foldable:
            return None
        widths[max(foldable, key=lambda i: widths[i])] -= 1
    return widths


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    grid = Table.grid("", Column(overflow="fold"), padding=(0, GAP, 0, 0))
    for place, row in enumerate(rows):
        if place:
            grid.add_row("", "")
        for column, cell in zip(columns, row, strict=True):
            if cell:
                grid.add_row(Text(column, style="bold"), Text(cell))
    _print(grid)
