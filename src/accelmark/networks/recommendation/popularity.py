"""Which rows of a table are looked up: a few very often, most hardly ever, or all alike.

A skewed stream finds its rows in a cache, and the gradients of a batch's equal rows are added up; a uniform
one does neither. They are different loads, so both can be chosen; the data sets' are skewed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from accelmark.networks.base import LOOKUPS

SKEWED, UNIFORM = LOOKUPS


@dataclass(frozen=True)
class Curve:
    """Zipf's law in Mandelbrot's form: row r is looked up in proportion to 1 / (r + offset) ** exponent.

    Integrated over each row, which makes it exact to draw from in closed form: tables have 40 million rows.
    """

    exponent: float
    offset: float

    def share(self, rows: int, first: int) -> float:
        """The share of all lookups in a table of so many rows that the `first` rows have."""
        return self._mass(first) / self._mass(rows)

    def draw(self, rows: Tensor | int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Random rows, the commonest 0; `rows`, how many there are, spreads over `shape`."""
        rows = torch.as_tensor(rows, dtype=torch.float64)
        power = 1 - self.exponent
        draws = torch.rand(shape, generator=generator, dtype=torch.float64)
        most = self.offset**power
        place = (most - draws * (most - (rows + self.offset) ** power)) ** (1 / power) - self.offset
        return torch.minimum(place, rows - 1).clamp(min=0).long()

    def _mass(self, first: int) -> float:
        power = 1 - self.exponent
        return float((self.offset**power - (first + self.offset) ** power) / -power)


def lookups(
    curve: Curve, kind: str, rows: Tensor | int, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor:
    """Rows by a curve, or all alike if `kind` is `uniform`."""
    if kind == SKEWED:
        return curve.draw(rows, shape, generator)
    draws = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (draws * torch.as_tensor(rows)).long()


#: MovieLens 20M's films: the commonest has 0.25 % of all ratings (in the data 67,310 of 20 million, 0.34 %),
#: the first thousand of 26,744 two thirds. The form is chosen for these, not fitted to each film.
FILMS = Curve(exponent=1.6, offset=250.0)
