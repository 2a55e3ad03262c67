"""Writes the site: pages from templates, data in parts, charts as pictures, assets.

Pages hold no data of Records but for headlines, machines and what can be filtered by. Tables, charts and
Records travel as scripts (`data/*.js`), since that is all that a page opened from the disk may load. Every
text is escaped by the templates or is JSON, of which `static/report.js` makes text nodes only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelmark.errors import CannotWriteError
from accelmark.report import assets
from accelmark.report.data import as_json, cut, write_script, write_text
from accelmark.report.record_pages import Place, write_index
from accelmark.report.view import FACETS, Cell, Line, Machine, Page, Site, Table
from accelmark.text import safe

if TYPE_CHECKING:
    from jinja2 import Environment

    from accelmark.report.charts import Chart

#: A part of a table's data, in bytes. Small enough that a page with many tables can load the first of each.
TABLE_PART = 500_000
#: What a page loads of its tables without being asked, in bytes; the rest waits for a button. With the
#: libraries and charts a page then stays below 5 MB.
TABLES_AT_ONCE = 2_500_000
#: Longer texts in a cell are cut.
MAX_CELL = 1_000
#: So many values of a facet are offered, the most frequent ones; the search finds the others.
MAX_CHOICES = 300
#: So many machines are described, on their page and in short on the first.
MAX_MACHINES, MACHINES_IN_SHORT = 400, 12
_LABELS = {
    "network": "Network",
    "accelerator": "Accelerator",
    "precision": "Precision",
    "framework": "Framework",
    "scenario": "Scenario",
    "source": "Source",
}


def write(site: Site, places: Iterable[Place], out: Path) -> None:
    """Write the site, but for what is written beside it: pictures of charts, and Records in full.

    `places` is where `record_pages` writes each Record; it is gone through last. The folder and its parts are
    there. A `CannotWriteError` if the disk is full or the folder goes away.
    """
    try:
        assets.write(out / "assets")
        _theme(out / "data")
        pages = _Pages(site, out)
        for page in site.pages:
            _page(page, pages, out)
        pages.write("method", "method")
        count, buckets = write_index(places, out / "data")
        pages.write("record", "record", buckets=buckets, count=count)
    except OSError as error:
        raise CannotWriteError(
            f"cannot write {safe(out)}: {error.strerror}; free some space, or give another --out."
        ) from error


class _Pages:
    """Fills templates with what all pages have in common."""

    def __init__(self, site: Site, out: Path) -> None:
        self._site, self._out, self._environment = site, out, _environment()

    def write(self, name: str, template: str, **content: Any) -> None:
        html = self._environment.get_template(f"{template}.html").render(
            site=self._site, current=name, in_short=MACHINES_IN_SHORT, links=self._links(), **content
        )
        write_text(self._out, f"{file_name(name)}.html", html)

    def _links(self) -> list[tuple[str, str, str]]:
        """Every page's name, file and title."""
        links = [(page.name, f"{file_name(page.name)}.html", page.title) for page in self._site.pages]
        return [*links, ("method", "method.html", "Method and glossary")]

    def machines(self) -> Sequence[Machine]:
        return self._site.machines


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("accelmark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda value: f"{value:,}"
    environment.filters["sum_lines"] = lambda tables: sum(len(table.lines) for table in tables)
    environment.filters["cut"] = lambda value: cut(value, MAX_CELL)
    return environment


def file_name(page: str) -> str:
    """The overview is where a browser starts."""
    return "index" if page == "overview" else page


@dataclass(frozen=True)
class _Loaded:
    """A table with how it is loaded: in how many parts, and how many of them at once."""

    table: Table
    parts: int
    first: int
    first_lines: int
    rest_bytes: int
    flagged: bool


def _page(page: Page, pages: _Pages, out: Path) -> None:
    written = [(table, _table(table, out / "data")) for table in page.tables]
    budget = TABLES_AT_ONCE - sum(sizes[0][0] for _, sizes in written)
    loaded = []
    for table, sizes in written:
        first = 1
        while first < len(sizes) and sizes[first][0] <= budget:
            budget -= sizes[first][0]
            first += 1
        loaded.append(
            _Loaded(
                table=table,
                parts=len(sizes),
                first=first,
                first_lines=sum(lines for _, lines in sizes[:first]),
                rest_bytes=sum(size for size, _ in sizes[first:]),
                flagged=any(line.flags for line in table.lines),
            )
        )
    if page.charts:
        _charts(page, out / "data")
    machines = pages.machines() if page.name in ("overview", "systems") else ()
    pages.write(
        page.name,
        "page",
        page=page,
        tables=loaded,
        facets=_facets(page.tables),
        machines=machines[:MAX_MACHINES],
        machines_left=max(0, len(machines) - MAX_MACHINES),
        heights={chart.name: _height(chart) for chart in page.charts},
        subtitles={chart.name: _subtitle(chart) for chart in page.charts},
    )


def _facets(tables: Sequence[Table]) -> list[tuple[str, str, list[tuple[str, int]], int]]:
    """What a page can be filtered by: name, label, values with their number of lines, values left out."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    for table in tables:
        for line in table.lines:
            for name, value in line.facets.items():
                if name in counts:
                    counts[name][cut(value, MAX_CELL)] += 1
    offered = []
    for name, values in counts.items():
        if len(values) > 1:
            chosen = sorted(values.most_common(MAX_CHOICES), key=lambda each: each[0].lower())
            offered.append((name, _LABELS[name], chosen, len(values) - len(chosen)))
    return offered


@dataclass
class _Part:
    """Lines of a table as JSON; texts that occur often are written once and numbered."""

    cells: dict[Cell, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: Line) -> None:
        row = as_json(
            [
                line.id,
                [self._cell(cell) for cell in line.cells],
                [self._value(line.facets.get(name)) for name in FACETS],
                [[flag.kind, cut(flag.why, MAX_CELL)] for flag in line.flags],
            ]
        )
        self.rows.append(row)
        self.size += len(row) + 1

    # Sizes count texts as if none needed an escape: the limits are there to aim at, not to meet.
    def _cell(self, cell: Cell) -> int:
        if cell not in self.cells:
            self.cells[cell] = len(self.cells)
            self.size += min(len(cell.text), MAX_CELL) + 12
        return self.cells[cell]

    def _value(self, value: str | None) -> int:
        if value is None:
            return -1
        text = cut(value, MAX_CELL)
        if text not in self.values:
            self.values[text] = len(self.values)
            self.size += len(text) + 3
        return self.values[text]

    def json(self) -> str:
        cells = as_json([_cell(cell) for cell in self.cells])
        return f'{{"cells":{cells},"values":{as_json(list(self.values))},"rows":[{",".join(self.rows)}]}}'


def _cell(cell: Cell) -> str | list[object]:
    text = cut(cell.text, MAX_CELL)
    order = cell.order if cell.order is not None and math.isfinite(cell.order) else None
    return text if order is None and not cell.quiet else [text, order, int(cell.quiet)]


def _table(table: Table, folder: Path) -> list[tuple[int, int]]:
    """Write a table's data; the size and the number of lines of each part, of which there is at least one."""
    written: list[tuple[int, int]] = []
    part = _Part()
    for line in table.lines:
        part.add(line)
        if part.size >= TABLE_PART:
            written.append((_table_part(table, len(written), part, folder), len(part.rows)))
            part = _Part()
    if part.rows or not written:
        written.append((_table_part(table, len(written), part, folder), len(part.rows)))
    return written


def _table_part(table: Table, number: int, part: _Part, folder: Path) -> int:
    return write_script(folder, f"table-{table.name}-{number}", part.json())


def _charts(page: Page, folder: Path) -> None:
    write_script(
        folder, f"charts-{page.name}", as_json([[chart.name, _plain(chart.spec)] for chart in page.charts])
    )


def _theme(folder: Path) -> None:
    from accelmark.report.charts.theme import config

    write_script(folder, "theme", as_json({"light": config(dark=False), "dark": config(dark=True)}))


def _plain(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without colours and title: the page has its own of both, which can change and wrap."""
    return {name: value for name, value in spec.items() if name not in ("config", "title")}


def _subtitle(chart: Chart) -> str:
    title = chart.spec.get("title")
    subtitle = title.get("subtitle", "") if isinstance(title, Mapping) else ""
    return " ".join(subtitle) if isinstance(subtitle, list) else str(subtitle)


def _height(chart: Chart) -> int:
    """About a chart's height in pixels, so that the page stays still while it is drawn."""
    height = chart.spec.get("height")
    if isinstance(height, Mapping) and isinstance(height.get("step"), int | float):
        return int(height["step"] * chart.marks * 1.3) + 80
    return int(height) + 150 if isinstance(height, int | float) else 400
