"""What charts share: hollow marks for noisy figures, rings for those in doubt, error bars, tooltips."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from accelmark.report.charts.chart import Spec

Rows = Sequence[Mapping[str, Any]]
#: A red that shows on white and on black.
DOUBT = "#E0453A"
HOLLOW, RINGED = "noisy: hollow", "in doubt: ringed"
_MEANINGS = {HOLLOW: "#808080", RINGED: DOUBT}


def heading(title: str, subtitle: str) -> Spec:
    """The title, with what all marks have in common below it, in lines that a phone has room for."""
    lines = {"text": lines_of(title, 38)}
    return lines | {"subtitle": lines_of(subtitle, 52)} if subtitle else lines


def lines_of(text: str, most: int) -> list[str]:
    """As few lines as it takes, and no last word on its own."""
    if len(text) <= most:
        return [text] if text else []

    def wrapped(width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    lines = len(wrapped(most))
    widths = range(-(-len(text) // max(lines, 1)), most)
    return next((found for width in widths if len(found := wrapped(width)) <= lines), wrapped(most))


def columns(names: Sequence[str]) -> int:
    """As many columns of the legend as a phone has room for."""
    longest = max(map(len, names))
    return 3 if longest <= 12 else 2 if longest <= 20 else 1


def hollow(rows: Rows) -> Spec:
    """The encoding that draws noisy marks without filling, where there are any."""
    if all(row["state"] != "noisy" for row in rows):
        return {}
    return {
        "fillOpacity": {"condition": {"test": "datum.state === 'noisy'", "value": 0}, "value": 1},
    }


def states(rows: Rows, place: Spec) -> list[Spec]:
    """A ring around each mark in doubt, and a legend of what is noisy or in doubt, where there are any."""
    layers: list[Spec] = []
    meanings = [HOLLOW] if any(row["state"] == "noisy" for row in rows) else []
    if any("doubt" in row for row in rows):
        meanings.append(RINGED)
        ring = {"type": "point", "shape": "circle", "filled": False, "size": 220, "strokeWidth": 2}
        layers.append(
            {
                "transform": [{"filter": "isValid(datum.doubt)"}],
                "mark": {**ring, "stroke": DOUBT, "opacity": 1, "aria": False},
                "encoding": {"y": {"field": "value", "type": "quantitative"}, **place},
            }
        )
    if meanings:
        layers.append(_legend(meanings))
    return layers


def _legend(meanings: Sequence[str]) -> Spec:
    """A layer that draws nothing but its legend, by a channel that no other layer uses."""
    return {
        "data": {"values": [{"meaning": meaning} for meaning in meanings]},
        "mark": {"type": "point", "size": 0, "opacity": 1, "aria": False},
        "encoding": {
            "color": {
                "field": "meaning",
                "type": "nominal",
                "scale": {"domain": meanings, "range": [_MEANINGS[meaning] for meaning in meanings]},
                "legend": {
                    "title": None,
                    "orient": "top",
                    "direction": "horizontal",
                    "symbolType": "circle",
                    "symbolSize": 110,
                    "symbolFillColor": "transparent",
                    "labelOffset": 8,
                },
            },
        },
    }


def intervals(rows: Rows, x: Spec, vertical: bool) -> list[Spec]:
    """Error bars with ticks at both ends, for the rows that have an interval."""
    if all("low" not in row for row in rows):
        return []
    along, across = ("y", "x") if vertical else ("x", "y")
    ends = [
        {
            "mark": {
                "type": "tick",
                "orient": "horizontal" if vertical else "vertical",
                "thickness": 1.2,
                "size": 8,
                "style": "interval",
                "aria": False,
            },
            "encoding": {along: {"field": end, "type": "quantitative"}, across: x},
        }
        for end in ("low", "high")
    ]
    return [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "layer": [
                {
                    "mark": {"type": "rule", "style": "interval", "aria": False},
                    "encoding": {
                        along: {"field": "low", "type": "quantitative"},
                        f"{along}2": {"field": "high"},
                        across: x,
                    },
                },
                *ends,
            ],
        }
    ]


def words(rows: Rows) -> Spec:
    """What a mark says of itself when pointed at or read aloud.

    All of it is in the data: Vega-Lite writes titles into expressions, where a Record's text must never be.
    """
    shown = {"about": "figure", "interval": "95 % interval", "state": "status", "record": "Record"}
    shown["doubt"] = "audit"
    return {
        "description": {"field": "about", "type": "nominal"},
        "tooltip": [
            {"field": name, "title": title, "type": "nominal"}
            for name, title in shown.items()
            if any(name in row for row in rows)
        ],
    }
