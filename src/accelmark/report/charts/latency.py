"""Latency over batch size or load: means, or medians of Records that have no mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from accelmark.record import Record
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.lines import Plan, line_chart
from accelmark.report.charts.material import Material, Point


def latency_charts(
    records: Sequence[Record], x: Callable[[Record], float | None], plan: Plan, material: Material
) -> Iterator[Chart | None]:
    """A chart for each of the two statistics that there is; they are never in one."""
    found: dict[str, list[Point]] = {"mean": [], "median": []}
    for record in records:
        latency, where = record.metrics.latency_ms, x(record)
        if latency is None or where is None:
            continue
        if latency.mean is not None:
            found["mean"].append(Point(record, where, latency.mean))
        elif latency.p50 is not None:
            found["median"].append(Point(record, where, latency.p50))
    for statistic, points in found.items():
        axes = dataclasses.replace(plan.axes, y=f"Latency, {statistic} (ms)")
        identity = plan.identity if statistic == "mean" else (*plan.identity, statistic)
        what = f"The {statistic} latency in ms"
        yield line_chart(points, dataclasses.replace(plan, axes=axes, identity=identity, what=what), material)
