"""How charts look: colours, sizes of text, light and dark.

Specifications name styles and scales only; every colour is in the configuration, so that one specification
serves both. Colours are those of Okabe and Ito (Color universal design, 2008), the yellow left out: it does
not show on white. Marks differ by shape or dashes too, for print.
"""

from __future__ import annotations

from accelmark.report.charts.chart import Spec

#: Blue, orange, green, purple, vermilion, sky blue, and a grey in the place of black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
GREY = {False: "#555555", True: "#BBBBBB"}
#: Eight shapes by seven colours: no two of 56 series look alike.
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 3))
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"


def config(dark: bool = False) -> Spec:
    """The Vega-Lite configuration for a light or a dark page. The background is the page's own."""
    ink = "#E4E4E4" if dark else "#222222"
    quiet = "#A8A8A8" if dark else "#5A5A5A"
    faint = "#3A3A3A" if dark else "#DDDDDD"
    # Deep blue does not show on black; a lighter one, still darker than sky blue, stands in.
    blues = {"#0072B2": "#3B82E0"} if dark else {}
    axis = {
        "labelColor": ink,
        "titleColor": ink,
        "domainColor": quiet,
        "tickColor": quiet,
        "gridColor": faint,
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "title": {
            "color": ink,
            "subtitleColor": quiet,
            "fontSize": 15,
            "subtitleFontSize": 12,
            "anchor": "start",
            "offset": 10,
            "subtitlePadding": 4,
        },
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 420,
            "symbolSize": 90,
            "symbolStrokeWidth": 2,
            "orient": "bottom",
            "direction": "vertical",
        },
        "range": {
            "category": [*(blues.get(colour, colour) for colour in COLOURS), GREY[dark]],
            "symbol": list(SHAPES),
        },
        "style": {
            "value": {"color": ink, "fontSize": 11},
            "heading": {"color": ink, "fontSize": 12, "fontWeight": "bold"},
            "interval": {"color": ink, "strokeWidth": 1.2},
            "reference": {"color": quiet, "strokeWidth": 1.4, "strokeDash": [5, 4]},
            "baseline": {"color": quiet, "strokeWidth": 1.2, "opacity": 0.7},
            "reference-label": {"color": quiet, "fontSize": 11},
            "shade": {"color": quiet, "opacity": 0.16},
        },
    }


def theme(spec: Spec, dark: bool) -> Spec:
    """The same chart for a light or a dark page; only the configuration is exchanged."""
    return {**spec, "config": config(dark)}
