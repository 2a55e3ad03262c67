"""Charts of figures in rows: a bar for each, its label beside it, in groups with a heading.

Labels stand beside their bars instead of in a legend, so that nothing rests on colour. Where figures span
orders of magnitude, points on a logarithmic axis stand for bars, which would have to begin at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelmark.record import Record
from accelmark.report.charts.chart import DATA, Chart, Spec, slug
from accelmark.report.charts.lines import LOG_FROM
from accelmark.report.charts.marks import heading, hollow, intervals, lines_of, states, words
from accelmark.report.charts.material import (
    Interval,
    Material,
    cut,
    is_tiny,
    left_out,
    sentences,
    state_notes,
)
from accelmark.report.charts.theme import config
from accelmark.text import number, value_and_interval

ROW = 19
#: Labels take less than half of a narrow page.
_LABEL_LIMIT = "isFinite(containerSize()[0]) ? clamp(containerSize()[0] * 0.42, 100, 320) : 320"
#: So many rows fit on two pages of paper; the rest is left to the tables.
MAX_ROWS = 100


@dataclass(frozen=True)
class Bar:
    """A figure with its label, the heading that it stands under, and the Records that it rests on."""

    heading: str
    label: str
    colour: str
    value: float
    records: tuple[Record, ...]
    ci95: Interval | None = None


@dataclass(frozen=True)
class Table:
    """All about such a chart but its bars. `reference` is a line with a word above it.

    `computed` figures show three digits; others as many as their source gives.
    """

    family: str
    page: str
    title: str
    what: str
    axis: str
    identity: tuple[str | None, ...] = ()
    subtitle: str = ""
    reference: float | None = None
    reference_label: str = ""
    ascending: bool = False
    dots: bool = False
    percent: bool = False
    computed: bool = False
    notes: tuple[str, ...] = ()


def bar_chart(bars: Sequence[Bar], table: Table, material: Material) -> Chart | None:
    """The chart, or `None` where it would hold fewer than two marks. Bars are sorted under each heading."""
    kept = _sorted(bars, table.ascending)[:MAX_ROWS]
    if len(kept) < 2:
        return None
    tiny = is_tiny(kept[0].records[0])
    title = f"{table.title} (tiny)" if tiny else table.title
    rows, headings, order = _rows(kept, material, table)
    drawn = [record for bar in kept for record in bar.records]
    notes = [
        *table.notes,
        left_out(len(bars) - len(kept), "further row", "further rows"),
        *state_notes(drawn, material.doubts),
    ]
    return Chart(
        name=slug((table.family, *table.identity, "tiny" if tiny else None)),
        page=table.page,
        title=title,
        description=_description(title, rows, table),
        spec=_spec(rows, headings, order, title, table),
        marks=len(rows),
        note=sentences(notes),
        records=tuple(dict.fromkeys(record.id for record in drawn)),
    )


def _sorted(bars: Iterable[Bar], ascending: bool) -> list[Bar]:
    groups: dict[str, list[Bar]] = {}
    for bar in bars:
        groups.setdefault(bar.heading, []).append(bar)
    return [
        bar
        for group in groups.values()
        for bar in sorted(group, key=lambda bar: bar.value, reverse=not ascending)
    ]


def _rows(
    bars: Sequence[Bar], material: Material, table: Table
) -> tuple[list[dict[str, Any]], list[dict[str, str]], list[str]]:
    """Data of the bars, of the headings, and the order of both; a row's key ends in its label."""
    rows: list[dict[str, Any]] = []
    headings: list[dict[str, str]] = []
    order: list[str] = []
    above = ""
    for bar in bars:
        if bar.heading != above:
            above = bar.heading
            order.append(f"{len(order):05d}")
            headings.append({"row": order[-1], "heading": bar.heading})
        order.append(f"{len(order):05d}{bar.label}")
        row: dict[str, Any] = {
            "row": order[-1],
            "label": bar.label,
            "heading": bar.heading,
            "colour": bar.colour,
            "value": bar.value,
            "end": bar.value,
            "shown": (shown := _shown(bar, table)),
            "about": f"{', '.join(filter(None, (bar.heading, bar.label)))}; {table.axis}: {shown}",
            "state": "noisy" if any(record.status == "noisy" for record in bar.records) else "ok",
            "record": cut(bar.records[0].id, 80),
        }
        if bar.ci95 is not None and bar.ci95[0] < bar.ci95[1]:
            row["low"], row["high"] = bar.ci95
            row["end"] = max(bar.value, bar.ci95[1])
            row["interval"] = f"{number(bar.ci95[0])} to {number(bar.ci95[1])}"
        if any(record.id in material.doubts for record in bar.records):
            row["doubt"] = "in doubt"
        rows.append(row)
    return rows, headings, order


def _shown(bar: Bar, table: Table) -> str:
    """The figure beside a bar: to the digits that its interval supports, or as the source has it."""
    if bar.ci95 is not None and bar.ci95[0] < bar.ci95[1]:
        text = value_and_interval(bar.value, bar.ci95)
    else:
        text = number(bar.value, 3) if table.computed else f"{bar.value:,.6g}"
    return f"{text} %" if table.percent else text


def _description(title: str, rows: Sequence[Mapping[str, Any]], table: Table) -> str:
    low, high = (choose(rows, key=lambda row: row["value"]) for choose in (min, max))

    def named(row: Mapping[str, Any]) -> str:
        return f"{row['shown']} ({', '.join(filter(None, (row['heading'], row['label'])))})"

    return f"{title}: {len(rows)} figures. {table.what} reaches from {named(low)} to {named(high)}."


def _spec(
    rows: list[dict[str, Any]], headings: list[dict[str, str]], order: list[str], title: str, table: Table
) -> Spec:
    low = min(row.get("low", row["value"]) for row in rows)
    high = max(row["end"] for row in rows)
    dots = table.dots and high / low > LOG_FROM
    # Room at the end for the figure beside the longest bar.
    scale: Spec = {"domain": [low / 1.6, high * 2.5], "type": "log"} if dots else {"domain": [0, high * 1.16]}
    x = {
        "field": "value",
        "type": "quantitative",
        "title": lines_of(table.axis, 34),
        "scale": {**scale, "nice": False},
        "axis": {"tickCount": 5, "labelOverlap": "greedy", "format": ",~r"},
    }
    y = {
        "field": "row",
        "type": "nominal",
        "sort": None,
        "title": None,
        "scale": {"domain": order, "paddingInner": 0.22, "paddingOuter": 0.15},
        # Keys are five digits and the label, since labels need not be unique.
        "axis": {
            "labelExpr": "slice(datum.value, 5)",
            "ticks": False,
            "domain": False,
            "grid": False,
            "labelLimit": {"expr": _LABEL_LIMIT},
            "labelPadding": 6,
        },
    }
    colours = list(dict.fromkeys(sorted(row["colour"] for row in rows)))
    colour = {"field": "colour", "type": "nominal", "scale": {"domain": colours}, "legend": None}
    mark: Spec = {"type": "point", "filled": True, "size": 70} if dots else {"type": "bar"}
    # Beside the states, where there are any.
    doubts = any("doubt" in row for row in rows)
    place = {"y": {"field": "row", "type": "nominal", "sort": None}}
    layers: list[Spec] = [
        {
            "name": DATA,
            "mark": {**mark, "strokeWidth": 1.6, "opacity": 1},
            "encoding": {
                "y": y,
                "x": x,
                "fill": colour,
                "stroke": colour,
                **hollow(rows),
                **words(rows),
            },
        },
        *intervals(rows, x=place["y"], vertical=False),
        {
            "mark": {"type": "text", "style": "value", "align": "left", "dx": 7 + 7 * doubts, "aria": False},
            "encoding": {**place, "x": {"field": "end", "type": "quantitative"}, "text": {"field": "shown"}},
        },
        *states(rows, {"x": {"field": "value", "type": "quantitative"}, **place}),
    ]
    if any(each["heading"] for each in headings):
        layers.append(
            {
                "data": {"values": headings},
                "mark": {
                    "type": "text",
                    "style": "heading",
                    "align": "left",
                    "baseline": "middle",
                    "dy": 2,
                    "aria": False,
                },
                "encoding": {**place, "x": {"value": 2}, "text": {"field": "heading"}},
            }
        )
    if table.reference is not None and not dots:
        # Below the bars, so that it crosses no figure that can be helped.
        layers = [*_reference(table.reference, table.reference_label), *layers]
    return {
        "title": heading(title, table.subtitle),
        "width": "container",
        "height": ROW * len(order),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "layer": layers,
        "config": config(),
    }


def _reference(value: float, words: str) -> list[Spec]:
    where = {"x": {"datum": value, "type": "quantitative"}}
    return [
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "style": "baseline", "aria": False},
            "encoding": where,
        },
        {
            "data": {"values": [{}]},
            "mark": {"type": "text", "text": words, "style": "reference-label", "dy": -6, "aria": False},
            "encoding": {**where, "y": {"value": 0}},
        },
    ]
