"""What the site shows, as plain text: tables, pages, Records. No markup; whoever renders it escapes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from accelmark.report.charts import Chart

#: Why a line looks different. `doubtful`: the audit doubts it. `failed`: it has no result.
FlagKind = Literal["noisy", "doubtful", "tiny", "failed", "not-comparable"]


@dataclass(frozen=True)
class Cell:
    """One cell. `order` is what it is sorted by if not its text; `quiet` text says why there is no figure."""

    text: str
    order: float | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Flag:
    """One reason to look twice at a line, in words."""

    kind: FlagKind
    why: str


@dataclass(frozen=True)
class Line:
    """One Record in a table. `facets` are what the table can be filtered by."""

    id: str
    cells: tuple[Cell, ...]
    flags: tuple[Flag, ...] = ()
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column; numeric ones are aligned to the right. `help` explains the title's terms."""

    title: str
    numeric: bool = False
    help: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a page. `name` is unique and safe in file names and links; each line has a cell a column."""

    name: str
    page: str
    title: str
    intro: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


#: By what every table of Records can be filtered, in this order.
FACETS = ("network", "accelerator", "precision", "framework", "scenario", "source")


@dataclass(frozen=True)
class Page:
    """One page of the site. `name` is its file's, without `.html`."""

    name: str
    title: str
    intro: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Machine:
    """One machine of the Systems page: what is known of it, name and value."""

    name: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RecordView:
    """Everything of one Record: its fields as names and values, and what belongs beside them."""

    id: str
    title: str
    fields: tuple[tuple[str, str], ...]
    flags: tuple[Flag, ...] = ()
    #: The command that repeats it.
    command: str = ""
    log_tail: str = ""
    #: Vega-Lite of its raw samples, and the sentence that says the same.
    chart: Mapping[str, Any] | None = None
    chart_description: str = ""


@dataclass(frozen=True)
class Site:
    """The whole site. `headlines` are sentences: what was measured, and how it compares."""

    title: str
    made: str
    headlines: tuple[str, ...]
    pages: tuple[Page, ...]
    machines: tuple[Machine, ...]
