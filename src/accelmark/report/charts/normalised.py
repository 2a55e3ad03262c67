"""Training throughput relative to one reference, as Lambda's study draws it.

The numbers are `accelmark.compare.study`'s: each network's throughput over that of one accelerator of the
reference, at the reference's precision. Frameworks are not mixed, nor are compiled and plain runs. Networks
that the reference did not run have a chart with a reference of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelmark import published
from accelmark.compare import study
from accelmark.errors import UsageError, unknown
from accelmark.record import Record
from accelmark.report.charts.bars import Bar, Table, bar_chart
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.material import (
    MAX_SERIES,
    Material,
    by,
    cut,
    left_out,
    network_title,
    word,
)
from accelmark.text import safe

STUDY = "lambda-2021-08"
#: More bars than these are divided into several charts.
MAX_BARS = 60
#: Numbers of accelerators that have a chart of their own, those with most Records.
MAX_COUNTS = 8
#: Charts of one framework, each with a reference of its own, before the rest is left to the tables.
MAX_REFERENCES = 3


@dataclass(frozen=True)
class _Chosen:
    """A reference, and the networks (with sizes) that it ran on one accelerator."""

    system: str
    precision: str
    networks: tuple[tuple[str, str], ...]


def normalised_charts(material: Material, baseline: str | None) -> Iterator[Chart | None]:
    """For each framework the averages of Lambda's study if its figures are there, then all networks."""
    if baseline is not None:
        _check(baseline, material)
    records = [
        record
        for record in material.of("training")
        if record.metrics.throughput and study.precision_class(record.job.precision)
    ]
    yield from _averages(records, material)
    for found in by(records, _framework):
        rest = found
        wanted = baseline or _study_reference(found)
        for _ in range(MAX_REFERENCES):
            chosen = _choose(rest, wanted)
            if chosen is None and wanted is not None:
                chosen = _choose(rest, None)
            if chosen is None:
                break
            wanted = None
            covered = set(chosen.networks)
            yield from _charts([r for r in rest if _network(r) in covered], chosen, material)
            rest = [record for record in rest if _network(record) not in covered]


def _check(baseline: str, material: Material) -> None:
    systems = dict.fromkeys(study.system_name(record) for record in material.records)
    if baseline not in systems and baseline.rpartition(":")[0] not in systems:
        raise unknown("baseline", baseline, map(safe, systems))


def _framework(record: Record) -> tuple[str | None, str | None]:
    """Plain running is what a source means that names no engine."""
    engine = record.job.engine
    return record.job.framework, None if engine in (None, "eager") else engine


def _network(record: Record) -> tuple[str, str]:
    return record.job.network, record.job.size


def _study_reference(records: Sequence[Record]) -> str | None:
    described = published.entry(STUDY).study
    return described.reference if described and any(_of_study(record) for record in records) else None


def _of_study(record: Record) -> bool:
    return record.id.startswith(f"{STUDY}/")


def _choose(records: Sequence[Record], wanted: str | None) -> _Chosen | None:
    """The reference asked for, else the one that most Records can be put over, of equals the first."""
    ran: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
    counts: dict[tuple[str, str], int] = {}
    for record in records:
        counts[_network(record)] = counts.get(_network(record), 0) + 1
        if record.job.accelerators == 1:
            place = study.system_name(record), str(record.job.precision)
            ran.setdefault(place, {})[_network(record)] = None
    if wanted is not None:
        ran = {place: networks for place, networks in ran.items() if _is(place, wanted)}
    if not ran:
        return None
    best = max(ran, key=lambda place: sum(counts[network] for network in ran[place]))
    if sum(counts[network] for network in ran[best]) < 2:
        return None
    return _Chosen(*best, tuple(ran[best]))


def _is(place: tuple[str, str], wanted: str) -> bool:
    """Whether a system at a precision is SYSTEM, SYSTEM:PRECISION or SYSTEM:CLASS."""
    system, precision = place
    return wanted in (system, f"{system}:{precision}", f"{system}:{study.precision_class(precision)}")


def _charts(records: Sequence[Record], chosen: _Chosen, material: Material) -> Iterator[Chart | None]:
    """A chart for each number of accelerators, in parts where it would be too long."""
    references = [record for record in records if _is_reference(record, chosen)]
    counts: dict[int, list[Record]] = {}
    for record in records:
        counts.setdefault(record.job.accelerators, []).append(record)
    most = sorted(counts, key=lambda count: -len(counts[count]))[:MAX_COUNTS]
    for count in sorted(most):
        mine, dropped = _newest_series(counts[count])
        parts = _parts(mine)
        for place, part in enumerate(parts, 1):
            networks = {_network(record) for record in part}
            beside = [record for record in references if _network(record) in networks]
            title = f", part {place} of {len(parts)}" if len(parts) > 1 else ""
            yield _chart(
                [*beside, *(r for r in part if not _is_reference(r, chosen))],
                chosen,
                count,
                material,
                title,
                dropped,
            )


def _is_reference(record: Record, chosen: _Chosen) -> bool:
    place = study.system_name(record), record.job.precision
    return record.job.accelerators == 1 and place == (chosen.system, chosen.precision)


def _newest_series(records: Sequence[Record]) -> tuple[list[Record], int]:
    newest = sorted(records, key=lambda record: record.when, reverse=True)
    series = list(dict.fromkeys((study.system_name(r), r.job.precision) for r in newest))
    kept = set(series[:MAX_SERIES])
    return [r for r in records if (study.system_name(r), r.job.precision) in kept], max(
        0, len(series) - MAX_SERIES
    )


def _parts(records: Sequence[Record]) -> list[list[Record]]:
    """Whole networks, so many together as make one chart."""
    networks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        networks.setdefault(_network(record), []).append(record)
    parts: list[list[Record]] = []
    room = 0
    for name in sorted(networks):
        cells = len({(study.system_name(r), r.job.precision) for r in networks[name]})
        if not parts or cells > room:
            parts.append([])
            room = MAX_BARS
        parts[-1] += networks[name]
        room -= cells
    return parts


def _chart(
    records: Sequence[Record], chosen: _Chosen, count: int, material: Material, part: str, dropped: int
) -> Chart | None:
    titles = {_network(record): network_title(record) for record in records}
    groups = {f"{network}@{size}": (f"{network}@{size}",) for network, size in titles}
    try:
        result = study.normalise(records, f"{chosen.system}:{chosen.precision}", groups)
    except UsageError:
        # An `@` in a network's name, which no group can name; the tables show it.
        return None
    by_label = {
        label.removesuffix(" (tiny)"): title for label, title in zip(groups, titles.values(), strict=True)
    }
    bars, missing, several = [], [], set()
    for row in result.rows:
        if row.accelerators != count:
            continue
        several |= set(row.notes)
        if row.average is None:
            missing += [reason for reason in row.missing if not reason.endswith(": no Record")]
            continue
        bars.append(
            Bar(
                heading=by_label[row.group.removesuffix(" (tiny)")],
                label=cut(f"{row.system}, {row.exact}"),
                colour=cut(row.system),
                value=row.average,
                ci95=row.ci95,
                records=(row.values[0].record,),
            )
        )
    framework, engine = _framework(records[0])
    how = " · ".join(
        filter(
            None, (word(framework) if framework else "framework not stated", word(engine) if engine else "")
        )
    )
    one = f"one {cut(chosen.system, 40)} at {chosen.precision}"
    table = Table(
        family="relative-training",
        page="training",
        title=f"Training throughput, {_of(count)}, relative to {one}{part}",
        subtitle=f"{how} · each at its own batch size",
        what="Relative throughput",
        axis=f"Throughput over that of {one}",
        identity=(framework, engine, chosen.system, chosen.precision, f"{count}x", part),
        reference=1.0,
        reference_label="1",
        computed=True,
        notes=(
            _first("not comparable with the reference, and not drawn", missing),
            f"of {len(several)} figures there are several Records; the newest is drawn, of those without a "
            f"time the last read"
            if several
            else "",
            left_out(dropped, "further system", "further systems"),
        ),
    )
    return bar_chart(bars, table, material)


def _first(what: str, reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    more = f", and {len(reasons) - 4} more" if len(reasons) > 4 else ""
    return f"{what}: {'; '.join(cut(reason, 100) for reason in reasons[:4])}{more}"


def _of(count: int) -> str:
    return "one accelerator" if count == 1 else f"{count} accelerators"


def _averages(records: Sequence[Record], material: Material) -> Iterator[Chart | None]:
    """The averages that the study's ratios are formed of, with those of one's own Records."""
    described = published.entry(STUDY).study
    if described is None or not any(_of_study(record) for record in records):
        return
    members = {member for group in described.groups.values() for member in group}
    taken = [
        record
        for record in records
        if f"{record.job.network}@{record.job.size}" in members and _framework(record) == ("pytorch", None)
    ]
    taken, _ = _newest_series(taken)
    result = study.normalise(taken, described.reference, described.groups)
    one = f"one {result.reference.system} at {result.reference.precision}"
    bars = [
        Bar(
            heading=f"{row.group}, {_of(row.accelerators)}",
            label=cut(f"{row.system}, {row.exact}"),
            colour=cut(row.system),
            value=row.average,
            ci95=row.ci95,
            records=tuple(value.record for value in row.values),
        )
        for row in sorted(result.rows, key=lambda row: row.accelerators)
        if row.average is not None
    ]
    yield bar_chart(
        bars,
        Table(
            family="relative-training-averages",
            page="training",
            title=f"Training throughput, averaged as in Lambda's study, relative to {one}",
            subtitle="PyTorch · arithmetic mean over networks · each at the largest batch that fits",
            what="Average relative throughput",
            axis=f"Mean throughput over that of {one}",
            identity=(STUDY,),
            reference=1.0,
            reference_label="1",
            computed=True,
            notes=("a system that lacks a network of a group has no average",),
        ),
        material,
    )
