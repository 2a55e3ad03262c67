"""Rows of published tables that no curve joins: printed ratios, and times to convergence."""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.record import Record
from accelmark.report.charts.bars import Bar, Table, bar_chart
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.material import (
    Key,
    Material,
    by,
    cut,
    key,
    labels,
    newest,
    older,
    word,
    work,
)


def ratio_charts(material: Material) -> Iterator[Chart | None]:
    """Ratios as a page prints them, by what they are over."""
    records = [record for record in material.records if record.metrics.ratio]
    for found in by(records, _over):
        over = cut(_over(found[0]) or "the reference", 40)
        bars = [
            Bar(
                heading=cut(record.job.network.replace("-", " ")),
                label=cut(
                    f"{record.job.accelerators}x {record.system.accelerator.name}, "
                    f"{record.job.precision or 'precision not stated'}"
                ),
                colour=cut(record.system.accelerator.name),
                value=ratio,
                records=(record,),
            )
            for record in found
            if (ratio := record.metrics.ratio)
        ]
        yield bar_chart(
            bars,
            Table(
                family="printed-ratios",
                page="overview",
                title=f"Training speed over that of as many {over}",
                subtitle="as printed",
                what="The ratio",
                axis=f"Throughput over that of {over}",
                identity=(_over(found[0]),),
                reference=1.0,
                reference_label="equal",
            ),
            material,
        )


def _over(record: Record) -> str:
    return str(record.job.parameters.get("over", ""))


def convergence_charts(material: Material) -> Iterator[Chart | None]:
    """Minutes to convergence without a rule book, for each framework, under a heading for each network."""
    records = [
        record
        for record in material.of("time-to-quality")
        if record.metrics.time_to_train_min and "rules" not in record.job.parameters
    ]
    for found in by(records, lambda r: r.job.framework):
        latest = newest(found, lambda record: (("work", work(record)), *key(record)))
        ordered = sorted(latest.values(), key=work)
        # Each network has its own conditions, and only these need telling apart.
        names = {
            (work(one), each): label
            for group in by(ordered, work)
            for one in group[:1]
            for each, label in labels(map(_short, group))[0].items()
        }
        framework = found[0].job.framework
        how = word(framework) if framework else "framework not stated"
        bars = [
            Bar(
                heading=work(record),
                label=cut(f"{record.job.accelerators}x {names[work(record), _short(record)]}"),
                colour=cut(record.system.accelerator.name),
                value=minutes,
                records=(record,),
            )
            for record in ordered
            if (minutes := record.metrics.time_to_train_min)
        ]
        yield bar_chart(
            bars,
            Table(
                family="convergence",
                page="convergence",
                title=f"Time to train to convergence, {how}",
                subtitle="the quality reached is in the table, and differs between rows of one network",
                what="Time to train in minutes",
                axis="Minutes (less is better)",
                identity=(framework or "not-stated",),
                ascending=True,
                dots=True,
                notes=(older(len(found) - len(latest)),),
            ),
            material,
        )


def _short(record: Record) -> Key:
    return key(record, ("size", "task", "framework", "accelerators"))
