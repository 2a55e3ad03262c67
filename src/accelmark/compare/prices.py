"""What accelerators cost, as the user says: a YAML file with currency, date and a price for each board."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from accelmark import names
from accelmark.compare.parts import share
from accelmark.errors import UnreadableInputError
from accelmark.job import Model, Name
from accelmark.record import Record
from accelmark.text import safe

EXAMPLE = "currency: USD, date: 2026-11-30, per: hour, prices: {A100-SXM4-80GB: 1.80}"


class Prices(Model):
    """Prices of one accelerator: to buy (`per: unit`) or to rent (`per: hour`)."""

    currency: Name
    date: datetime.date
    per: Name
    prices: dict[str, Annotated[float, Field(gt=0)]]

    def board(self, name: str) -> float | None:
        """The price of one board, under any of its spellings; `None` if the file has none."""
        wanted = names.board(name)
        return next((price for board, price in self.prices.items() if names.board(board) == wanted), None)

    def of(self, record: Record) -> float | None:
        """The price of a Record's accelerators together. Part of an accelerator has no price of its own."""
        if share(record) != 1:
            return None
        price = self.board(record.system.accelerator.name)
        return None if price is None else price * record.job.accelerators

    def __str__(self) -> str:
        return f"{self.currency} per {self.per}, prices of {self.date:%Y-%m-%d}"


def read_prices(path: Path) -> Prices:
    """Read a file of prices; an `UnreadableInputError` says what is wrong with it."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableInputError(f"{safe(path)} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UnreadableInputError(f"{safe(path)} is no YAML: {safe(str(error).splitlines()[0])}.") from error
    try:
        return Prices.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UnreadableInputError(
            f"{safe(path)} holds no prices: {safe(where)}: {first['msg']}; write it like {EXAMPLE}."
        ) from error
