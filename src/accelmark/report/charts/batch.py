"""Throughput and latency over the batch size of inference."""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.record import Record
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.latency import latency_charts
from accelmark.report.charts.lines import Axes, Plan, line_chart
from accelmark.report.charts.material import (
    Material,
    Point,
    by,
    cut,
    odd_size,
    positive,
    same_work,
    unit,
    work,
)


def batch_charts(material: Material) -> Iterator[Chart | None]:
    """Throughput for each network, task and unit, and latency for each network and task."""
    records = [record for record in material.of("inference") if _batch(record)]
    for found in by(records, same_work, unit):
        printed = cut(unit(found[0]) or "", 30)
        points = [
            Point(record, where, metric.value, metric.ci95)
            for record in found
            if (metric := record.metrics.throughput) and (where := _batch(record))
        ]
        axes = Axes("Batch size", f"Throughput ({printed})", log_x=True)
        plan = _plan(found[0], "throughput", f"Throughput in {printed}", axes, unit(found[0]))
        yield line_chart(points, plan, material)
    for found in by(records, same_work):
        plan = _plan(found[0], "latency", "", Axes("Batch size", "", log_x=True), None)
        yield from latency_charts(found, _batch, plan, material)


def _batch(record: Record) -> float | None:
    return positive(record.job.batch_size)


def _plan(first: Record, metric: str, what: str, axes: Axes, unit_of: str | None) -> Plan:
    task = first.job.parameters.get("task")
    return Plan(
        family=f"{metric}-over-batch",
        page="inference",
        title=f"{work(first)}: {metric} over batch size",
        what=what,
        axes=axes,
        without=("batch", "size", "task"),
        identity=(odd_size(first), str(task) if task else None, unit_of),
    )
