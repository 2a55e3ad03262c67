"""Throughput per watt. What the power is of (board, package, whole system) is never mixed in one chart."""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.job import SCENARIOS
from accelmark.record import Record
from accelmark.report.charts.bars import Bar, Table, bar_chart
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.material import (
    Material,
    by,
    cut,
    key,
    labels,
    newest,
    odd_size,
    older,
    same_work,
    work,
)

#: Which page a scenario's efficiency is on; of others nobody states it.
PAGES = {
    "training": "training",
    "inference": "inference",
    "offline": "mlperf",
    "server": "mlperf",
    "single-stream": "mlperf",
    "multi-stream": "mlperf",
    "serving": "serving",
    "speech-recognition": "speech",
    "language-service": "speech",
    "speech-synthesis": "speech",
}
#: Words for what the power is of.
BASES = {
    "board": "power of the boards alone",
    "system": "power of the whole system",
    "package": "power of the CPU packages",
    None: "what the power is of is not stated",
}


def efficiency_charts(material: Material) -> Iterator[Chart | None]:
    """A chart for each network, scenario, unit and kind of power."""
    records = [record for record in material.of(*PAGES) if record.metrics.efficiency]
    for found in by(
        records, same_work, lambda r: r.job.scenario, _rules, _unit, lambda r: r.metrics.power_basis
    ):
        yield _chart(found, material)


def _unit(record: Record) -> str:
    return record.metrics.efficiency.unit if record.metrics.efficiency else ""


def _rules(record: Record) -> str | None:
    rules = record.job.parameters.get("rules")
    return cut(rules, 40) if rules else None


def _heading(record: Record) -> str:
    batch = record.job.batch_size
    return f"batch {batch:,}" if batch is not None and batch < 10**9 else ""


def _chart(records: list[Record], material: Material) -> Chart | None:
    latest = newest(records, lambda record: key(record, ("size", "task", "rules")))
    ordered = sorted(latest.values(), key=lambda record: record.job.batch_size or 0)
    names, common = labels(key(record, ("size", "task", "rules", "batch")) for record in ordered)
    first = ordered[0]
    task, scenario = first.job.parameters.get("task"), first.job.scenario
    how = scenario if scenario in SCENARIOS else cut(scenario)
    bars = [
        Bar(
            heading=_heading(record),
            label=names[key(record, ("size", "task", "rules", "batch"))],
            colour=cut(record.system.accelerator.name),
            value=efficiency.value,
            records=(record,),
        )
        for record in ordered
        if (efficiency := record.metrics.efficiency) and efficiency.value > 0
    ]
    basis = BASES[first.metrics.power_basis]
    table = Table(
        family="efficiency",
        page=PAGES[scenario],
        title=f"{work(first)}: throughput per watt, {how}",
        subtitle=" · ".join(filter(None, (_rules(first), basis, common))),
        what=f"Efficiency in {cut(_unit(first), 30)}",
        axis=f"{cut(_unit(first), 30)} (more is better)",
        identity=(
            how,
            first.job.network,
            odd_size(first),
            _rules(first),
            str(task) if task else None,
            _unit(first),
            first.metrics.power_basis or "not-stated",
        ),
        notes=(older(len(records) - len(latest)),),
    )
    return bar_chart(bars, table, material)
