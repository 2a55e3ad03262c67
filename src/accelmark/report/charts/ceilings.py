"""What machines can do, and which share of it training reaches.

A roofline needs the arithmetic intensity, operations over bytes moved. No Record holds the bytes, so that
only its flat part could be drawn: the share of the measured matrix-product rate, as bars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from accelmark.record import Record
from accelmark.report.charts.bars import Bar, Table, bar_chart
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.material import (
    Interval,
    Material,
    by,
    cut,
    key,
    labels,
    newest,
    older,
    quotient_factors,
    unit,
    word,
    work,
)
from accelmark.text import readable

_TITLES = {
    "matrix-product": "Matrix products",
    "memory-copy": "Copies within the memory",
    "host-link": "Copies between host and accelerator",
    "all-reduce": "All-reduce over the accelerators",
}


def ceiling_charts(material: Material) -> Iterator[Chart | None]:
    """The measured ceilings of all machines, one chart a kind."""
    for found in by(material.of("ceiling"), lambda r: r.job.network, unit):
        latest = newest(found, lambda record: key(record, ("size",)))
        names, common = labels(latest)
        top = (
            max(r.metrics.throughput.value for r in found if r.metrics.throughput) if unit(found[0]) else 1.0
        )
        scale, prefix = readable(top, unit(found[0]) or "")
        first = found[0]
        printed = prefix + cut(unit(first) or "", 30)
        bars = [
            Bar(
                heading="",
                label=names[each],
                colour=cut(record.system.accelerator.name),
                value=metric.value / scale,
                ci95=(metric.ci95[0] / scale, metric.ci95[1] / scale) if metric.ci95 else None,
                records=(record,),
            )
            for each, record in latest.items()
            if (metric := record.metrics.throughput)
        ]
        title = _TITLES.get(first.job.network, cut(first.job.network))
        yield bar_chart(
            bars,
            Table(
                family="ceiling",
                page="systems",
                title=f"{title}: what the machines can do",
                subtitle=common,
                what=f"The measured ceiling in {printed}",
                axis=printed,
                identity=(first.job.network, unit(first)),
                notes=(older(len(found) - len(latest)),),
            ),
            material,
        )


def share_charts(material: Material) -> Iterator[Chart | None]:
    """The arithmetic rate that training reached, as a share of the measured matrix-product rate."""
    by_id = {record.id: record for record in material.of("ceiling")}
    for found in by((r for r in material.records if r.metrics.ceiling), lambda r: r.system.name):
        yield _share_chart(found, by_id, material)


def _share_chart(found: Sequence[Record], by_id: Mapping[str, Record], material: Material) -> Chart | None:
    latest = newest(found, lambda record: (("network", record.job.network), *key(record)))
    names, common = labels(key(record, ("task",)) for record in latest.values())
    ordered = sorted(latest.values(), key=work)
    bars = []
    for record in ordered:
        ceiling = record.metrics.ceiling
        if ceiling is None:
            continue
        percent = ceiling.share * 100
        bars.append(
            Bar(
                heading=work(record),
                label=names[key(record, ("task",))],
                colour=word(record.job.precision or "not stated"),
                value=percent,
                ci95=_interval(percent, record, by_id.get(ceiling.reference)),
                records=(record,),
            )
        )
    above = sum(bar.value > 100 for bar in bars)
    system = cut(found[0].system.name)
    table = Table(
        family="ceiling-share",
        page="systems",
        title=f"{system}: share of its matrix-product rate that is reached",
        subtitle=common,
        what="The share of the ceiling in percent",
        axis="Arithmetic rate over the measured matrix-product rate (%)",
        identity=(found[0].system.name,),
        reference=100.0 if above or any(bar.value > 60 for bar in bars) else None,
        reference_label="all of it",
        percent=True,
        computed=True,
        notes=(
            older(len(found) - len(latest)),
            f"{above} above 100 %, which cannot be: the fault is ours, in the ceiling or in the count of "
            f"operations"
            if above
            else "",
        ),
    )
    return bar_chart(bars, table, material)


def _interval(percent: float, record: Record, ceiling: Record | None) -> Interval | None:
    """From the intervals of both figures; none where the ceiling's Record is not there."""
    if ceiling is None or ceiling.metrics.throughput is None or record.metrics.throughput is None:
        return None
    factors = quotient_factors(record, ceiling)
    return None if factors is None else (percent * factors[0], percent * factors[1])
