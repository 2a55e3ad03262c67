"""What the footnotes of NVIDIA's page say of a row: fields of its Job and Metrics, and conditions.

`footnotes.csv` has every footnote split into facts. A fact holds for the rows of its section (and of the
sections inside it) that it applies to: a network, a board, a column, an empty cell, or all of them. Facts
that only explain the page (pointers, dates, captions of charts) stay in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from accelmark.job import Scalar

Row = Mapping[str, str]

#: Facts that explain the page or that the tables have as a column, and so change nothing here.
EXPLAIN = frozenset(
    {
        "chunk_ms",
        "date",
        "dataset",
        "jarvis_version",
        "link",
        "measurement",
        "mlperf_id",
        "network",
        "pointer",
        "reproduction",
        "setup",
        "task",
        "throughput_unit",
    }
)


@dataclass
class Noted:
    """What the footnotes say of one row."""

    sequence_length: int | None = None
    global_batch_size: int | None = None
    partition: str | None = None
    power_basis: Literal["board"] | None = None
    parameters: dict[str, Scalar] = field(default_factory=dict)
    conditions: dict[str, Scalar] = field(default_factory=dict)

    def batch_size(self, accelerators: int) -> int | None:
        """Per accelerator: the footnotes give the batch of all together."""
        return self.global_batch_size // accelerators if self.global_batch_size else None


class Notes:
    """The page's footnotes."""

    def __init__(self, facts: Iterable[Row]) -> None:
        self.facts = [fact for fact in facts if fact["parameter"] not in EXPLAIN]

    def of(self, row: Row) -> Noted:
        """Everything that they say of a row."""
        noted = Noted()
        for fact in self.facts:
            if applies(fact, row):
                _add(noted, fact)
        return noted


def applies(fact: Row, row: Row) -> bool:
    """Whether a fact is about a row."""
    section = fact["section"]
    if row["section"] != section and not row["section"].startswith(f"{section} > "):
        return False
    return any(_names(target.strip(), row) for target in fact["applies_to"].split(";"))


def _names(target: str, row: Row) -> bool:
    if target.startswith("all ") or target == "container column":
        return True
    if target.endswith(" = '-'"):
        return row.get(target.removesuffix(" = '-'")) == ""
    if target == "efficiency column":
        return bool(row.get("efficiency_per_watt"))
    return target.casefold() in [row.get(column, "").casefold() for column in ("network", "task", "gpu")]


def _add(noted: Noted, fact: Row) -> None:
    parameter, value = fact["parameter"], fact["value"]
    match parameter:
        case "sequence_length":
            noted.sequence_length = int(value)
        case "batch_size":
            noted.global_batch_size = int(value)
        case "power_basis":
            noted.power_basis = "board"
        case "accuracy_target":
            percent = float(value.partition("%")[0])
            noted.parameters["accuracy_target"] = int(percent) if percent.is_integer() else percent
        case "partition":
            instances, _, profile = value.partition(" x ")
            noted.partition = profile
            noted.parameters["instances"] = int(instances)
        case "container" | "server" if fact["applies_to"].endswith("'-'"):
            noted.conditions[parameter] = "pre-release" if parameter == "container" else "pre-production"
        case "server" | "status":
            # The tables name the server in a column, and the preview is a condition of every MLPerf row.
            pass
        case _:
            noted.conditions[parameter] = int(value) if value.isdecimal() else value
