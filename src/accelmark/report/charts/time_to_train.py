"""Time to train over accelerators, by MLPerf's rules, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.compare import spread
from accelmark.record import Record
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.lines import Axes, Plan, line_chart
from accelmark.report.charts.material import (
    Interval,
    Material,
    Point,
    by,
    cut,
    odd_size,
    positive,
    same_work,
    work,
)


def time_to_train_charts(material: Material) -> Iterator[Chart | None]:
    """A chart for each network and rule book."""
    records = [
        record
        for record in material.of("time-to-quality")
        if record.metrics.time_to_train_min and _rules(record) and positive(record.job.accelerators)
    ]
    for found in by(records, same_work, _rules):
        points = [
            Point(record, float(record.job.accelerators), minutes, _interval(record, minutes))
            for record in found
            if (minutes := record.metrics.time_to_train_min)
        ]
        yield line_chart(points, _plan(found[0], points), material)


def _rules(record: Record) -> str:
    return cut(record.job.parameters.get("rules", ""), 40)


def _interval(record: Record, minutes: float) -> Interval | None:
    """The interval of the score of a set of runs; a printed score has none."""
    if len(record.samples.runs) < 3:
        return None
    drawn = spread.time_to_train(record)
    return spread.interval(minutes, {record.id: (1.0, drawn)}) if drawn else None


def _plan(first: Record, points: list[Point]) -> Plan:
    least, most = (choose(points, key=lambda point: (point.x, point.y)) for choose in (min, max))
    several = most.x > least.x
    return Plan(
        family="time-to-train",
        page="mlperf",
        title=f"{work(first)}: time to train over accelerators",
        subtitle=_rules(first),
        what="Time to train in minutes",
        axes=Axes("Accelerators", "Time to train (minutes)", log_x=True, log_y=True),
        without=("accelerators", "size", "task", "rules"),
        identity=(odd_size(first), _rules(first)),
        # Twice the accelerators in half the time.
        reference=((least.x, least.y), (most.x, least.y * least.x / most.x)) if several else (),
        reference_label="ideal" if several else "",
    )
