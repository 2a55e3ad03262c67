"""Writes the site: pages from templates, data in parts, charts as pictures, assets.

Pages hold no data of Records but for headlines, machines and what can be filtered by. Tables, charts and
Records travel as scripts (`data/*.js`), since that is all that a page opened from the disk may load. Every
text is escaped by the templates or is JSON, of which `static/report.js` makes text nodes only.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from accelmark.errors import CannotWriteError
from accelmark.report import assets
from accelmark.report.folder import plain
from accelmark.report.pictures import drawing
from accelmark.report.view import FACETS, Cell, Line, Machine, Page, RecordView, Site, Table
from accelmark.text import safe

if TYPE_CHECKING:
    from jinja2 import Environment

    from accelmark.report.charts import Chart

#: A part of a table's data, in bytes. Small enough that a page with many tables can load the first of each.
TABLE_PART = 500_000
#: What a page loads of its tables without being asked, in bytes; the rest waits for a button. With the
#: libraries and charts a page then stays below 5 MB.
TABLES_AT_ONCE = 2_500_000
#: A part of the Records' data, and of the index of where they are.
RECORD_PART, INDEX_PART = 1_500_000, 500_000
#: Longer texts are cut: in a cell, in a field, a whole log.
MAX_CELL, MAX_FIELD, MAX_LOG = 1_000, 20_000, 200_000
#: A specification of raw samples that is larger is not drawn on the Record's page.
MAX_SPEC = 1_000_000
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
_GROUPS = {
    "": "The Record",
    "job": "The Job: what was measured",
    "settings": "Settings: how it was measured",
    "metrics": "Metrics: what came out",
    "conditions": "Conditions",
    "system": "The machine",
    "software": "Software",
    "origin": "Where it comes from",
}
_FIELD = re.compile(r"[a-z0-9_.\[\]]{1,100}")
#: Units at the end of fields' names, as people write them.
_UNITS = {
    "s": "s",
    "ms": "ms",
    "min": "min",
    "gib": "GiB",
    "w": "W",
    "j": "J",
    "mhz": "MHz",
}


def write(site: Site, records: Iterable[RecordView], out: Path) -> None:
    """Write the whole site into an existing, empty folder; Records are streamed."""
    write_texts(site, map(record_text, records), out)


def write_texts(site: Site, records: Iterable[tuple[str, str]], out: Path) -> None:
    """Write the whole site; Records come as `record_text` makes them, here or in processes of their own.

    A `CannotWriteError` if the disk is full or the folder goes away.
    """
    try:
        for folder in ("assets", "charts", "data"):
            (out / folder).mkdir(exist_ok=True)
        with drawing([chart for page in site.pages for chart in page.charts], out / "charts"):
            _site(site, records, out)
    except OSError as error:
        raise CannotWriteError(
            f"cannot write {safe(out)}: {error.strerror}; free some space, or give another --out."
        ) from error


def _site(site: Site, records: Iterable[tuple[str, str]], out: Path) -> None:
    assets.write(out / "assets")
    _theme(out / "data")
    pages = _Pages(site, out)
    for page in site.pages:
        _page(page, pages, out)
    count, buckets = _records(records, out / "data")
    pages.write("record", "record", buckets=buckets, count=count)
    pages.write("method", "method")


class _Pages:
    """Fills templates with what all pages have in common."""

    def __init__(self, site: Site, out: Path) -> None:
        self._site, self._out, self._environment = site, out, _environment()

    def write(self, name: str, template: str, **content: Any) -> None:
        html = self._environment.get_template(f"{template}.html").render(
            site=self._site, current=name, in_short=MACHINES_IN_SHORT, links=self._links(), **content
        )
        _text(self._out, f"{file_name(name)}.html", html)

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
    environment.filters["cut"] = lambda value: _cut(value, MAX_CELL)
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
                    counts[name][_cut(value, MAX_CELL)] += 1
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
        row = _json(
            [
                line.id,
                [self._cell(cell) for cell in line.cells],
                [self._value(line.facets.get(name)) for name in FACETS],
                [[flag.kind, _cut(flag.why, MAX_CELL)] for flag in line.flags],
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
        text = _cut(value, MAX_CELL)
        if text not in self.values:
            self.values[text] = len(self.values)
            self.size += len(text) + 3
        return self.values[text]

    def json(self) -> str:
        cells = _json([_cell(cell) for cell in self.cells])
        return f'{{"cells":{cells},"values":{_json(list(self.values))},"rows":[{",".join(self.rows)}]}}'


def _cell(cell: Cell) -> str | list[object]:
    text = _cut(cell.text, MAX_CELL)
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
    return _data(folder, f"table-{table.name}-{number}", part.json())


def _charts(page: Page, folder: Path) -> None:
    _data(folder, f"charts-{page.name}", _json([[chart.name, _plain(chart.spec)] for chart in page.charts]))


def _theme(folder: Path) -> None:
    from accelmark.report.charts.theme import config

    _data(folder, "theme", _json({"light": config(dark=False), "dark": config(dark=True)}))


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


def _records(records: Iterable[tuple[str, str]], folder: Path) -> tuple[int, int]:
    """Write the Records' data in parts, and the index of which part has which; how many of both there are.

    Only ids are kept: a hundred thousand of them take some 10 MB.
    """
    where: list[tuple[str, int]] = []
    part: list[str] = []
    size = number = 0
    for identity, content in records:
        if part and size + len(content) > RECORD_PART:
            _data(folder, _records_part(number), f"[{','.join(part)}]")
            part, size, number = [], 0, number + 1
        part.append(content)
        size += len(content)
        where.append((identity, number))
    if part:
        _data(folder, _records_part(number), f"[{','.join(part)}]")
    buckets = max(1, math.ceil(sum(len(identity) + 12 for identity, _ in where) / INDEX_PART))
    index: list[list[tuple[str, int]]] = [[] for _ in range(buckets)]
    for identity, place in where:
        index[bucket(identity, buckets)].append((identity, place))
    for place, entries in enumerate(index):
        _data(folder, f"index-{place}", _json(entries))
    return len(where), buckets


def _records_part(number: int) -> str:
    return f"records-{number + 1:04d}"


def bucket(identity: str, buckets: int) -> int:
    """In which part of the index a Record is; `report.js` computes the same from a string's UTF-16 units."""
    return zlib.crc32(identity.encode("utf-16-le", "surrogatepass")) % buckets


def record_text(view: RecordView) -> tuple[str, str]:
    """A Record's id, and all that its page shows as JSON."""
    chart = "null" if view.chart is None else _json(_plain(view.chart))
    too_large = len(chart) > MAX_SPEC
    content = {
        "id": view.id,
        "title": _cut(view.title, MAX_CELL),
        "groups": list(_grouped(view.fields)),
        "flags": [[flag.kind, _cut(flag.why, MAX_FIELD)] for flag in view.flags],
        "command": _cut(view.command, MAX_FIELD),
        "log": _cut_start(view.log_tail, MAX_LOG),
        "description": "There are too many raw samples to draw them here."
        if too_large
        else view.chart_description,
    }
    return view.id, f'{_json(content)[:-1]},"chart":{"null" if too_large else chart}}}'


def _grouped(fields: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Fields under the headings that they belong to: words for the name, the name itself, the value."""
    groups: dict[str, list[tuple[str, str, str]]] = {name: [] for name in _GROUPS}
    for name, value in fields:
        group, _, rest = name.partition(".")
        if not rest or group not in _GROUPS:
            group, rest = "", name
        groups[group].append((_words(rest), _cut(name, MAX_CELL), _cut(value, MAX_FIELD)))
    for group, members in groups.items():
        if members:
            yield _GROUPS[group], members


# The same few hundred names come with every Record.
@lru_cache(maxsize=4096)
def _words(name: str) -> str:
    """`latency_ms.p99` as `latency › p99 (ms)`; names that are no field's stay as they are."""
    if not _FIELD.fullmatch(name):
        return _cut(name, MAX_CELL)
    words, unit = [], ""
    for step in name.split("."):
        stem, _, end = step.rpartition("_")
        if stem and end in _UNITS:
            unit = f" ({_UNITS[end]})"
        words.append((stem if stem and end in _UNITS else step).replace("_", " "))
    return " › ".join(words) + unit


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _cut_start(text: str, limit: int) -> str:
    """The end of a log is what tells what happened."""
    return text if len(text) <= limit else f"…{text[len(text) - limit + 1 :]}"


def _json(value: object) -> str:
    """JSON in ASCII only: U+2028 ends a line of JavaScript for some, and lone surrogates fit no encoding."""
    try:
        # Five times as fast; what it cannot encode, or leaves in other characters, takes the long way.
        text = to_json(value).decode("ascii")
    except (UnicodeDecodeError, PydanticSerializationError):
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text


def _data(folder: Path, name: str, content: str) -> int:
    """Write data as a script that hands it to the page; its size in bytes."""
    return _text(folder, f"{name}.js", f'accelmark("{name}",{content});\n')


def _text(folder: Path, name: str, content: str) -> int:
    data = content.encode("utf-8", "replace")
    (folder / plain(name)).write_bytes(data)
    return len(data)
