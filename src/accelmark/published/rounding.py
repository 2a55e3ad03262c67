"""How far a printed figure may be from what was measured: half a unit of its last place."""

from __future__ import annotations

import re

from accelmark.record import Record

# In a page's row a comma separates thousands, in a CSV file cells: both readings are tried.
_THOUSANDS = re.compile(r"(?<![\w.])[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9])", re.ASCII)
_PLAIN = re.compile(r"(?<![0-9.])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
#: A figure has fewer characters; what is longer is no number of a table.
_LONGEST = 40


def printed_half_unit(record: Record, value: float) -> float:
    """Half a unit of the last printed place of `value`, as the Record's source row prints it.

    The row is searched for the token that reads as this value; where several do (`7` and `7.0`), the coarsest
    counts. 0.0 where there is no row or the value is not in it: a measurement of one's own is not rounded.
    """
    row = record.origin.row if record.origin else None
    if row is None:
        return 0.0
    tokens = [*_THOUSANDS.findall(row), *_PLAIN.findall(row)]
    return max((_half_unit(token) for token in tokens if _reads_as(token, value)), default=0.0)


def _reads_as(token: str, value: float) -> bool:
    return len(token) <= _LONGEST and float(token.replace(",", "")) == value


def _half_unit(token: str) -> float:
    mantissa, _, exponent = token.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
