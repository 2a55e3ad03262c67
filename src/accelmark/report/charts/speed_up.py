"""How much faster training gets with more accelerators, beside the ideal.

One accelerator's throughput may come from a row of another scenario (published pages have the training
throughput of one accelerator in one table, and that of several beside the time to quality in another), but
only with the same network, board, framework, precision and batch size per accelerator, and only where both
state that batch size.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.compare.conditions import compare_conditions
from accelmark.record import Record
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.lines import Axes, Plan, line_chart
from accelmark.report.charts.material import (
    Material,
    Point,
    by,
    odd_size,
    positive,
    quotient,
    quotient_factors,
    same_work,
    work,
)

#: More marks than these are on lines; below, straight axes show distances better.
LOG_ABOVE = 16
#: So many Records of one accelerator are looked at for one that may be compared.
NEWEST = 5
#: In these the two sides differ by design, or differ without making another load of it.
ALLOWED = frozenset({"accelerators", "scenario"})


def speed_up_charts(material: Material) -> Iterator[Chart | None]:
    """A chart for each network; processes that share one CPU have one of their own."""
    records = [
        record
        for record in material.of("training", "time-to-quality")
        if record.metrics.throughput and record.job.batch_size and positive(record.job.accelerators)
    ]
    for found in by(records, same_work, _on_cpu):
        yield _chart(found, material)


def _on_cpu(record: Record) -> bool:
    return record.system.accelerator.kind == "cpu"


def _load(record: Record) -> tuple[object, ...]:
    """What has to be the same, to find who may be compared without trying all pairs."""
    job = record.job
    return (
        record.system.accelerator.name,
        job.framework,
        job.engine,
        job.precision,
        job.batch_size,
        job.partition,
        record.metrics.throughput.unit if record.metrics.throughput else None,
    )


def _chart(records: list[Record], material: Material) -> Chart | None:
    singles: dict[tuple[object, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.when, reverse=True):
        if record.job.accelerators == 1:
            singles.setdefault(_load(record), []).append(record)
    points: list[Point] = []
    used: dict[str, Record] = {}
    lonely = 0
    for record in records:
        if record.job.accelerators == 1:
            continue
        one = next((one for one in singles.get(_load(record), ())[:NEWEST] if _comparable(record, one)), None)
        if one is None:
            lonely += 1
            continue
        points.append(_point(record, one))
        used[one.id] = one
    if not points:
        return None
    first, largest = points[0].record, max(point.x for point in points)
    cpu, task = _on_cpu(first), first.job.parameters.get("task")
    grow = "processes on one CPU" if cpu else "accelerators"
    notes = [
        f"not drawn, because no figure of one accelerator has the same batch size, precision, framework and "
        f"conditions: {lonely} Record{'' if lonely == 1 else 's'} of several"
        if lonely
        else "",
        "the processes share the CPU, so the ideal is the same throughput" if cpu else "",
    ]
    plan = Plan(
        family="speed-up",
        page="training",
        title=f"{work(first)}: speed-up over {grow}",
        what="Throughput over that of one",
        axes=Axes(
            grow[0].upper() + grow[1:],
            "Throughput over that of one",
            log_x=largest > LOG_ABOVE,
            log_y=largest > LOG_ABOVE,
        ),
        # A line joins the rows of one load, whichever table or server they come from.
        without=("accelerators", "size", "task", "server", "system", "source", *_conditions(records)),
        identity=(odd_size(first), str(task) if task else None, "cpu" if cpu else None),
        reference=((1.0, 1.0), (largest, 1.0 if cpu else largest)),
        reference_label="ideal",
        notes=tuple(notes),
    )
    return line_chart([*(Point(one, 1.0, 1.0) for one in used.values()), *points], plan, material)


def _conditions(records: list[Record]) -> set[str]:
    return {name for record in records for name in record.conditions}


def _comparable(record: Record, one: Record) -> bool:
    return compare_conditions(record, one, ALLOWED).comparable


def _point(record: Record, one: Record) -> Point:
    value, factors = quotient(record, one), quotient_factors(record, one)
    interval = None if factors is None else (value * factors[0], value * factors[1])
    return Point(record, float(record.job.accelerators), value, interval)
