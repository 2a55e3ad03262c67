"""The charts of the report, as Vega-Lite with its data in it, drawn by the reader's browser or by vl-convert.

One module a family: each takes the usable Records (`material`) and yields charts. What a family draws of (a
line of points, rows of bars) is in `lines` and `bars`. Specifications are plain data and not Altair objects,
which take 50 ms each to build; tests validate them against Altair's schema. They hold no `$schema`, which is
a remote address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from accelmark.audit.finding import Finding
from accelmark.record import Record
from accelmark.report.charts.batch import batch_charts
from accelmark.report.charts.ceilings import ceiling_charts, share_charts
from accelmark.report.charts.chart import SELECTOR, Chart
from accelmark.report.charts.efficiency import efficiency_charts
from accelmark.report.charts.load import load_charts
from accelmark.report.charts.material import Material, material
from accelmark.report.charts.normalised import normalised_charts
from accelmark.report.charts.render import picture, to_png, to_svg
from accelmark.report.charts.samples import record_chart
from accelmark.report.charts.speed_up import speed_up_charts
from accelmark.report.charts.tables import convergence_charts, ratio_charts
from accelmark.report.charts.theme import config, theme
from accelmark.report.charts.time_to_train import time_to_train_charts

__all__ = ["SELECTOR", "Chart", "charts", "config", "picture", "record_chart", "theme", "to_png", "to_svg"]

#: More charts than this on a page nobody looks at; those with most marks are kept.
MAX_PER_PAGE = 24


def charts(
    records: Sequence[Record], baseline: str | None = None, findings: Sequence[Finding] = ()
) -> list[Chart]:
    """Every chart that these Records give, page by page in the order in which pages show them.

    `baseline` is SYSTEM or SYSTEM:PRECISION, what training is drawn relative to. Without it that is the
    reference of Lambda's study if its figures are among the Records, else what most Records can be put over.
    """
    usable = material(records, findings)
    return _limited(_unique(chart for chart in _all(usable, baseline) if chart is not None))


def _all(usable: Material, baseline: str | None) -> Iterator[Chart | None]:
    return chain(
        ratio_charts(usable),
        convergence_charts(usable),
        normalised_charts(usable, baseline),
        speed_up_charts(usable),
        batch_charts(usable),
        time_to_train_charts(usable),
        load_charts(usable),
        share_charts(usable),
        ceiling_charts(usable),
        efficiency_charts(usable),
    )


def _unique(found: Iterable[Chart]) -> Iterator[Chart]:
    taken: Counter[str] = Counter()
    for chart in found:
        taken[chart.name] += 1
        yield chart if taken[chart.name] == 1 else replace(chart, name=f"{chart.name}-{taken[chart.name]}")


def _limited(found: Iterable[Chart]) -> list[Chart]:
    """At most so many a page; the last one says how many more there would be."""
    pages: dict[str, list[Chart]] = {}
    for chart in found:
        pages.setdefault(chart.page, []).append(chart)
    kept: list[Chart] = []
    for page in pages.values():
        largest = sorted(page, key=lambda chart: -chart.marks)[:MAX_PER_PAGE]
        names = {chart.name for chart in largest}
        shown = [chart for chart in page if chart.name in names]
        if len(shown) < len(page):
            count = len(page) - len(shown)
            charts_are = "chart with fewer marks is" if count == 1 else "charts with fewer marks are"
            more = f"{count} further {charts_are} left out on this page."
            shown[-1] = replace(shown[-1], note=f"{shown[-1].note} {more}".strip())
        kept += shown
    return kept
