"""Charts as pictures, drawn by vl-convert: no browser, no network."""

from __future__ import annotations

from accelmark.report.charts.chart import Chart, Spec
from accelmark.report.charts.theme import theme

#: Pictures have no page to fill; so wide is a chart then.
WIDTH = 720


def to_svg(chart: Chart, dark: bool = False) -> str:
    """The chart as SVG on a transparent background."""
    import vl_convert

    # Without base URLs nothing may be fetched, whatever a specification asks for.
    svg: str = vl_convert.vegalite_to_svg(_fixed(chart.spec, dark), allowed_base_urls=[])
    return svg


def to_png(chart: Chart, scale: float = 2) -> bytes:
    """The chart as PNG on white, for print and for slides; `scale` pixels each way to one of the page."""
    import vl_convert

    spec = _fixed(chart.spec, dark=False)
    spec["background"] = "white"
    png: bytes = vl_convert.vegalite_to_png(spec, scale=scale, allowed_base_urls=[])
    return png


def _fixed(spec: Spec, dark: bool) -> Spec:
    fixed = theme(spec, dark)
    fixed["width"] = WIDTH
    return fixed
