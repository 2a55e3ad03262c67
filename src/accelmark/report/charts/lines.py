"""Charts of one figure over another: a line for each series, a point for each Record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelmark.report.charts.chart import DATA, Chart, Spec, slug
from accelmark.report.charts.marks import columns, heading, hollow, intervals, states, words
from accelmark.report.charts.material import (
    MAX_SERIES,
    Key,
    Material,
    Point,
    cut,
    is_tiny,
    key,
    labels,
    left_out,
    sentences,
    state,
    state_notes,
)
from accelmark.report.charts.theme import DASHES, config
from accelmark.text import number

HEIGHT = 320
#: Labels of the legend end within a narrow page.
_LEGEND = {"expr": "isFinite(containerSize()[0]) ? max(150, containerSize()[0] - 80) : 480"}
#: More points than these in a chart hide each other.
MAX_POINTS = 600
#: Above this ratio of the largest figure to the smallest, small ones would lie on the axis.
LOG_FROM = 20.0


@dataclass(frozen=True)
class Axes:
    """What the axes say. `log_x` and `log_y` as they should be; `None` leaves it to the figures."""

    x: str
    y: str
    log_x: bool | None = None
    log_y: bool | None = None


@dataclass(frozen=True)
class Plan:
    """All about a chart but its points. `reference` is a dashed line of points, with the words beside it."""

    family: str
    page: str
    title: str
    what: str
    axes: Axes
    without: tuple[str, ...]
    identity: tuple[str | None, ...] = ()
    reference: tuple[tuple[float, float], ...] = ()
    reference_label: str = ""
    subtitle: str = ""
    notes: tuple[str, ...] = ()


def line_chart(points: Sequence[Point], plan: Plan, material: Material) -> Chart | None:
    """The chart, or `None` where it would hold fewer than two marks."""
    series: dict[Key, dict[float, Point]] = {}
    older = 0
    # The newest of several in one place; of those without a time the last read.
    for point in sorted(points, key=lambda point: point.record.when):
        placed = series.setdefault(key(point.record, plan.without), {})
        older += point.x in placed
        placed[point.x] = point
    kept = sorted(series, key=lambda each: max(p.record.when for p in series[each].values()), reverse=True)
    dropped = len(kept) - MAX_SERIES
    shown = sorted(kept[:MAX_SERIES])
    room = max(2, MAX_POINTS // max(1, len(shown)))
    drawn = [(each, series[each][x]) for each in shown for x in _thinned(sorted(series[each]), room)]
    thinned = sum(len(series[each]) for each in shown) - len(drawn)
    if len(drawn) < 2:
        return None
    names, common = labels(shown)
    first = drawn[0][1].record
    tiny = is_tiny(first)
    title = f"{plan.title} (tiny)" if tiny else plan.title
    rows = [_row(names[each], point, material, plan) for each, point in drawn]
    notes = [
        *plan.notes,
        left_out(older, "older Record of the same place", "older Records of the same place"),
        left_out(max(0, dropped), "further series", "further series"),
        left_out(thinned, "point in between", "points in between"),
        *state_notes([point.record for _, point in drawn], material.doubts),
    ]
    return Chart(
        name=slug((plan.family, first.job.network, *plan.identity, "tiny" if tiny else None)),
        page=plan.page,
        title=title,
        description=_description(title, rows, names.values(), plan),
        spec=_spec(rows, list(names.values()), title, common, plan),
        marks=len(rows),
        note=sentences(notes),
        records=tuple(dict.fromkeys(point.record.id for _, point in drawn)),
    )


def _thinned(places: list[float], most: int) -> list[float]:
    """So many at most, evenly, with the first and the last."""
    if len(places) <= most:
        return places
    last = len(places) - 1
    return [places[index * last // (most - 1)] for index in range(most)]


def _row(label: str, point: Point, material: Material, plan: Plan) -> dict[str, Any]:
    row: dict[str, Any] = {
        "series": label,
        "x": point.x,
        "value": point.y,
        "about": f"{label}; {plan.axes.x} {_plain(point.x)}; {plan.axes.y} {point.y:,.6g}",
        "state": state(point.record),
        "record": cut(point.record.id, 80),
    }
    if point.ci95 is not None and point.ci95[0] < point.ci95[1]:
        row["low"], row["high"] = point.ci95
        row["interval"] = f"{number(point.ci95[0])} to {number(point.ci95[1])}"
    if point.record.id in material.doubts:
        row["doubt"] = "in doubt"
    return row


def _description(title: str, rows: Sequence[Mapping[str, Any]], names: Iterable[str], plan: Plan) -> str:
    low, high = (choose(rows, key=lambda row: row["value"]) for choose in (min, max))
    counted = len(list(names))
    lines = "one series" if counted == 1 else f"{counted} series"
    return (
        f"{title}: {lines} over {plan.axes.x.lower()} from {_plain(min(row['x'] for row in rows))} to "
        f"{_plain(max(row['x'] for row in rows))}. {plan.what} reaches from {number(low['value'])} "
        f"({low['series']}) to {number(high['value'])} ({high['series']})."
    )


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _spec(rows: list[dict[str, Any]], names: list[str], title: str, common: str, plan: Plan) -> Spec:
    xs, ys = sorted({row["x"] for row in rows}), [row["value"] for row in rows]
    log_x = plan.axes.log_x if plan.axes.log_x is not None else xs[-1] / xs[0] > LOG_FROM
    log_y = plan.axes.log_y if plan.axes.log_y is not None else max(ys) / min(ys) > LOG_FROM
    x = {
        "field": "x",
        "type": "quantitative",
        "title": plan.axes.x,
        "scale": {"type": "log", "base": 2, "padding": 14, "nice": False}
        if log_x
        else {"zero": False, "padding": 14, "nice": False},
        # The batches or counts that there are, as far as there is room for them.
        "axis": {"grid": False, "labelOverlap": "greedy", "format": ",~r"}
        | ({"values": _ticks(xs, log_x)} if len(xs) <= 20 else {}),
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "title": plan.axes.y,
        "scale": {"type": "log", "padding": 14, "nice": False} if log_y else {"zero": True},
        "axis": {"tickCount": 6, "labelOverlap": "greedy", "format": ",~r"},
    }
    legend: Any = (
        None if len(names) == 1 else {"title": None, "columns": columns(names), "labelLimit": _LEGEND}
    )
    domain = {"domain": names}
    stroke = {"field": "series", "type": "nominal", "scale": domain, "legend": legend}
    layers: list[Spec] = []
    if plan.reference:
        layers += _reference(plan)
    layers.append(
        {
            "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
            "encoding": {
                "x": x,
                "y": y,
                "stroke": stroke,
                "strokeDash": {
                    "field": "series",
                    "type": "nominal",
                    "scale": {**domain, "range": [list(dash) for dash in DASHES]},
                    "legend": None,
                },
            },
        }
    )
    layers += intervals(rows, x={"field": "x", "type": "quantitative"}, vertical=True)
    layers.append(
        {
            "name": DATA,
            "mark": {"type": "point", "filled": True, "size": 70, "strokeWidth": 1.6, "opacity": 1},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "y": {"field": "value", "type": "quantitative"},
                "stroke": stroke,
                "fill": {"field": "series", "type": "nominal", "scale": domain, "legend": legend},
                "shape": {"field": "series", "type": "nominal", "scale": domain, "legend": legend},
                **hollow(rows),
                **words(rows),
            },
        }
    )
    layers += states(rows, {"x": {"field": "x", "type": "quantitative"}})
    return {
        "title": heading(title, " · ".join(filter(None, (plan.subtitle, common)))),
        "width": "container",
        "height": HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "layer": layers,
        # Dashes would fray the symbols of the legend, which differ by shape already.
        "resolve": {"legend": {"strokeDash": "independent"}},
        "config": config(),
    }


def _ticks(values: Sequence[float], log: bool) -> list[float]:
    """The first and the last value, and those between that are not too near to one that is there already."""
    places = [math.log(value) if log else value for value in values]
    near = (places[-1] - places[0]) * 0.06
    kept = [0, len(values) - 1] if len(values) > 1 else [0]
    for index, place in enumerate(places[1:-1], 1):
        if all(abs(place - places[other]) >= near for other in kept):
            kept.append(index)
    return [values[index] for index in sorted(kept)]


def _reference(plan: Plan) -> list[Spec]:
    """A dashed line, with its name on it. One point stands for a level over the whole width."""
    if len(plan.reference) == 1:
        level = plan.reference[0][1]
        where: Spec = {"y": {"datum": level, "type": "quantitative"}}
        text: Spec = {**where, "x": {"value": 4}}
        mark: Spec = {"type": "rule"}
        data: Spec = {"values": [{}]}
        align: Spec = {"align": "left", "dx": 2, "dy": -7}
        last = data
    else:
        values = [{"x": x, "value": y} for x, y in plan.reference]
        data, last = {"values": values}, {"values": values[-1:]}
        where = {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "value", "type": "quantitative"},
        }
        text, mark = where, {"type": "line"}
        falls = plan.reference[-1][1] < plan.reference[0][1]
        align = {"align": "right", "dx": -10, "dy": 10 if falls else -6}
    return [
        {"data": data, "mark": {**mark, "style": "reference", "aria": False}, "encoding": where},
        {
            "data": last,
            "mark": {"type": "text", "text": plan.reference_label, "style": "reference-label", "aria": False}
            | align,
            "encoding": text,
        },
    ]
