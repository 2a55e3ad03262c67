"""Charts as pictures, drawn by vl-convert: no browser, no network."""

from __future__ import annotations

from accelmark.report.charts.chart import Chart, Spec
from accelmark.report.charts.theme import theme

#: Pictures have no page to fill; so wide is a chart then.
WIDTH = 720
#: The font that vl-convert brings along, so that pictures are the same on every machine; then its doubles.
FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"


def to_svg(chart: Chart, dark: bool = False) -> str:
    """The chart as SVG on a transparent background."""
    import vl_convert

    # Without base URLs nothing may be fetched, whatever a specification asks for.
    svg: str = vl_convert.vegalite_to_svg(_fixed(chart.spec, dark), allowed_base_urls=[])
    return svg


def to_png(chart: Chart, scale: float = 2) -> bytes:
    """The chart as PNG on white, for print and for slides; `scale` pixels each way to one of the page."""
    return picture(to_svg(chart), scale)


def picture(svg: str, scale: float = 2) -> bytes:
    """A chart's SVG as PNG: drawing the specification a second time would take twice as long."""
    import vl_convert

    start = svg.index(">", svg.index("<svg")) + 1
    on_white = f'{svg[:start]}<rect width="100%" height="100%" fill="white"/>{svg[start:]}'
    png: bytes = vl_convert.svg_to_png(on_white, scale=scale)
    return png


def _fixed(spec: Spec, dark: bool) -> Spec:
    fixed = theme(spec, dark)
    fixed["width"] = WIDTH
    fixed["config"]["font"] = FONT
    return fixed
