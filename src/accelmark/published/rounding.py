"""How far a printed figure may be from what was measured: half a unit of its last place."""

from __future__ import annotations

import re

from accelmark.record import Record

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
_GROUPS = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9])"
# In a page's row a comma separates thousands, in a file of comma-separated values cells.
_READINGS = tuple(
    re.compile(rf"(?<![0-9.])(?:{pattern})", re.ASCII) for pattern in (f"{_GROUPS}|{_NUMBER}", _NUMBER)
)
#: Tables whose figures had their decimals cut off, not rounded (Lambda's, by the script that made them).
CUT_OFF = "pytorch-train-throughput-"
#: A figure has fewer characters; what is longer is no number of a table.
_LONGEST = 40


def printed_half_unit(record: Record, value: float) -> float:
    """Half a unit of the last printed place of `value`, as the Record's source row prints it.

    The row is searched for the token that reads as this value, with commas between thousands first; where
    several do (`7` and `7.0`), the coarsest counts. 0.0 where there is no row or the value is not in it: a
    measurement of one's own is not rounded.
    """
    row = record.origin.row if record.origin else None
    for reading in _READINGS if row else ():
        halves = [_half_unit(token) for token in reading.findall(row or "") if _reads_as(token, value)]
        if halves:
            return max(halves)
    return 0.0


def reads_as_printed(record: Record, value: float, exact: float) -> bool:
    """Whether an exact figure, printed as the Record's source prints, could read `value`."""
    half = printed_half_unit(record, value)
    file = record.origin.file if record.origin else None
    if file is not None and file.startswith(CUT_OFF):
        return value <= exact < value + 2 * half or exact == value
    return abs(exact - value) <= half * (1 + 1e-9)


def _reads_as(token: str, value: float) -> bool:
    return len(token) <= _LONGEST and float(token.replace(",", "")) == value


def _half_unit(token: str) -> float:
    mantissa, _, exponent = token.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
