"""From Records to the site: pages with tables and charts, headlines in words, machines, Records in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from accelmark import published
from accelmark.audit import SEVERITIES, Finding
from accelmark.compare.pairs import Pair, Pairing
from accelmark.compare.study import Comparison
from accelmark.names import facts
from accelmark.record import USABLE, Record, Source
from accelmark.report import tables
from accelmark.report.charts import Chart, record_chart
from accelmark.report.fields import fields
from accelmark.report.view import Cell, Column, Flag, Line, Machine, Page, RecordView, Site, Table
from accelmark.store import file_name
from accelmark.text import number, safe

#: Every page that may be there, in the order of the navigation; those with nothing to show are left out.
PAGES = (
    ("overview", "Overview", "What was measured, on which machines, and how it compares."),
    (
        "convergence",
        "Training: convergence",
        "How long training takes until the network is good enough. The only figure that counts everything.",
    ),
    ("training", "Training: throughput", "How much a machine trains in a second, alone and together."),
    (
        "inference",
        "Inference",
        "How much a trained network answers in a second, how soon, for how much power.",
    ),
    ("mlperf", "MLPerf scenarios", "Inference under the rule book of MLPerf, as its load generator asks."),
    ("serving", "Serving", "A model server under concurrent clients."),
    ("speech", "Speech and language services", "Services that hear, speak and answer, by number of streams."),
    ("systems", "Systems", "The machines: what they are, what runs on them, and what they can do at most."),
)
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,150}")
#: So many of the comparisons are told in words; all are in the table.
TOLD = 8


@dataclass(frozen=True)
class Content:
    """What the report is made of: Records without their raw samples, and what is said of them."""

    records: Sequence[Record]
    findings: Sequence[Finding] = ()
    charts: Sequence[Chart] = ()
    pairing: Pairing | None = None
    study: Comparison | None = None
    title: str = "Deep-learning performance"
    made: datetime = field(default_factory=lambda: datetime.now(UTC))


def make(content: Content) -> Site:
    """The site, without the Records' own pages, which are streamed (`views`)."""
    found = tables.build(content.records, content.findings)
    if content.pairing is not None and content.pairing.pairs:
        found.insert(0, _comparisons(content.pairing))
    machines = tuple(_machines(content.records))
    return Site(
        title=content.title,
        made=f"{content.made:%Y-%m-%d %H:%M} UTC",
        headlines=tuple(_headlines(content)),
        pages=tuple(_pages(found, content.charts, bool(machines))),
        machines=machines,
    )


def _pages(found: Sequence[Table], drawn: Sequence[Chart], machines: bool) -> Iterator[Page]:
    for name, title, intro in PAGES:
        page = Page(
            name,
            title,
            intro,
            tables=tuple(table for table in found if table.page == name),
            charts=tuple(chart for chart in drawn if chart.page == name),
        )
        if page.tables or page.charts or name == "overview" or (name == "systems" and machines):
            yield page


#: What Records are, in words, and which are.
_KINDS: tuple[tuple[str, Callable[[Record], bool]], ...] = (
    ("Records measured here", lambda record: record.source is Source.MEASURED),
    ("Records imported", lambda record: record.source is Source.IMPORTED),
    (
        "published rows",
        lambda record: record.source is Source.PUBLISHED and not published.is_figure(record),
    ),
    ("figures that published ratios rest on", published.is_figure),
)


def _headlines(content: Content) -> Iterator[str]:
    records = content.records
    for words, belongs in _KINDS:
        of = [record for record in records if belongs(record)]
        if of:
            systems = {record.system.name for record in of}
            failed = sum(record.status not in USABLE for record in of)
            rest = f"; {failed:,} of them have no result, and say why" if failed else ""
            yield f"{len(of):,} {words}, of {_plural(len(systems), 'system')}{rest}."
    if content.pairing is not None:
        yield from _pairs_in_words(content.pairing)
    if content.study is not None:
        yield from _study_in_words(content.study)
    counts = [
        _plural(sum(finding.severity == severity for finding in content.findings), severity)
        for severity in SEVERITIES[:2]
    ]
    if content.findings:
        yield f"The audit found {' and '.join(counts)}; the rows are marked and say why."


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _pairs_in_words(pairing: Pairing) -> Iterator[str]:
    summary = pairing.summary
    comparable = [pair for pair in pairing.pairs if pair.comparable]
    if summary.geometric_mean is None:
        yield "No Record measured here is comparable with one of the others; the table says why."
        return
    yield (
        f"{_plural(summary.pairs, 'pair')} of Records under the same conditions: geometric mean "
        f"{_interval_in_words(summary.geometric_mean, summary.ci95)}; {summary.wins} faster, "
        f"{summary.losses} slower, {summary.ties} within the interval, {summary.undecided} without one."
    )
    for pair in comparable[:TOLD]:
        ratio = pair.ratios[0]
        yield safe(
            f"{pair.record.job.label()} on {pair.record.system.name}: "
            f"{_interval_in_words(ratio.value, ratio.ci95)} as fast as {pair.other.system.name} "
            f"({pair.other.id})."
        )


def _interval_in_words(value: float, ci95: tuple[float, float] | None) -> str:
    interval = f"95 % interval {ci95[0]:.2f}–{ci95[1]:.2f}" if ci95 else "no interval"
    return f"{value:.2f}x ({interval})"


def _study_in_words(study: Comparison) -> Iterator[str]:
    for ratio in study.ratios:
        if ratio.value is not None:
            row = ratio.numerator
            yield safe(
                f"{row.accelerators}x {row.system} over as many {ratio.denominator_system}, {row.group}, "
                f"{row.precision}: {_interval_in_words(ratio.value, ratio.ci95)}."
            )


def _comparisons(pairing: Pairing) -> Table:
    columns = (
        Column("Record"),
        Column("On"),
        Column("With"),
        Column("On"),
        Column("Ratio", True, "how many times as fast, or as good, the first is"),
        Column("95 % interval", True),
        Column("What else differs"),
    )
    return Table(
        name="comparisons",
        page="overview",
        title="Side by side",
        intro="Each Record measured here with every comparable one, or else with the nearest, and why it is "
        "not comparable. A ratio above 1 means that the first is faster.",
        columns=columns,
        lines=tuple(_pair(pair) for pair in pairing.pairs),
    )


def _pair(pair: Pair) -> Line:
    record, other = pair.record, pair.other
    if pair.comparable:
        ratio = pair.ratios[0]
        value = Cell(f"{ratio.value:.2f}x", ratio.value)
        low_high = ratio.ci95
        interval = Cell(f"{low_high[0]:.2f} to {low_high[1]:.2f}") if low_high else Cell("none", quiet=True)
        flags: tuple[Flag, ...] = ()
    else:
        value, interval = Cell("not comparable", quiet=True), Cell("none", quiet=True)
        flags = (Flag("not-comparable", safe(", ".join(map(str, pair.conditions.blocking)))),)
    differs = [*pair.conditions.lifted, *pair.conditions.means]
    return Line(
        id=record.id,
        cells=(
            Cell(safe(record.job.label())),
            Cell(safe(record.system.name)),
            Cell(safe(other.id)),
            Cell(safe(other.system.name)),
            value,
            interval,
            Cell(safe(", ".join(map(str, differs)))),
        ),
        flags=flags,
        facets={
            "network": safe(record.job.network),
            "precision": safe(record.job.precision or "not stated"),
            "scenario": safe(record.job.scenario),
        },
    )


def _machines(records: Iterable[Record]) -> Iterator[Machine]:
    """Machines that something was measured on, the newest Record's description; then boards of others."""
    measured: dict[str, Record] = {}
    boards: dict[str, int] = {}
    for record in records:
        if record.source is Source.MEASURED:
            measured[record.system.name] = record
        else:
            name = record.system.accelerator.name
            boards[name] = boards.get(name, 0) + 1
    for name, record in sorted(measured.items()):
        yield Machine(safe(name), tuple(_machine(record)))
    for name, count in sorted(boards.items()):
        yield Machine(safe(name), tuple(_board(name, count)))


def _machine(record: Record) -> Iterator[tuple[str, str]]:
    system, software = record.system, record.software
    accelerator = system.accelerator
    rows: list[tuple[str, object]] = [
        ("accelerator", f"{accelerator.count}x {accelerator.name} ({accelerator.kind})"),
        ("memory", f"{accelerator.memory_gib:.0f} GiB each" if accelerator.memory_gib else None),
        ("driver", accelerator.driver),
        ("power limit", f"{accelerator.power_limit_w:g} W" if accelerator.power_limit_w else None),
        ("processor", f"{system.cpu.name}, {system.cpu.cores} cores" if system.cpu else None),
        ("host memory", f"{system.memory_gib:.0f} GiB" if system.memory_gib else None),
        ("operating system", system.os),
        ("server", system.server),
        ("container", system.container),
        ("framework", software.framework),
        ("CUDA", software.cuda),
        ("cuDNN", software.cudnn),
        ("NCCL", software.nccl),
        ("Python", software.python),
        ("accelmark", software.accelmark),
    ]
    for name, value in rows:
        if value is not None:
            yield name, safe(value)


def _board(name: str, count: int) -> Iterator[tuple[str, str]]:
    yield "Records of others", f"{count:,}"
    known = facts.board(name)
    if known is None:
        yield "data sheet", "not known here"
        return
    if known.power_w is not None:
        yield "power limit", f"{known.power_w:g} W"
    for kind, peaks in (("dense", known.dense), ("with 2:4 sparsity", known.sparse)):
        for precision, peak in peaks.items():
            unit = "TOP/s" if precision.startswith("int") else "TFLOP/s"
            yield f"peak, {precision}, {kind}", f"{number(peak)} {unit}"
    yield "source", f"{known.source}, {known.since:%Y-%m}"


def views(records: Iterable[Record], doubts: Mapping[str, Sequence[str]]) -> Iterator[RecordView]:
    """Every Record in full, one after the other; these need the raw samples.

    `doubts` are the audit's, by Record, as `tables.doubts_of` gives them.
    """
    for record in records:
        drawn = record_chart(record)
        yield RecordView(
            id=record.id,
            title=safe(record.job.label()),
            fields=tuple(fields(record)),
            flags=tuple(tables.flags(record, doubts.get(record.id, []))),
            command=_command(record),
            log_tail="\n".join(safe(line) for line in (record.log_tail or "").splitlines()),
            chart=drawn.spec if drawn else None,
            chart_description=drawn.description if drawn else "",
        )


def _command(record: Record) -> str:
    """What repeats a Record. Never a command that a Record brings along: it may come from anybody."""
    plain = published.is_id(record.id) and _PLAIN_ID.fullmatch(record.id)
    return f"accelmark reproduce {record.id if plain else file_name(record.id)}"
