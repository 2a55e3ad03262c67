"""The tables of the report: the originals' columns in their order, then what they do not say.

Each table is a row of `TABLES`: which Records belong to it and what its columns are. Every Record is in
exactly one table, the first that has it. The last columns are the same in all: the 95 % interval, the status
in words, the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelmark.audit import Finding, doubts
from accelmark.names import read
from accelmark.published import is_figure
from accelmark.record import USABLE, Record, Source, Status
from accelmark.report.view import Cell, Column, Flag, Line, Table
from accelmark.text import number, safe, value_and_interval

Shown = Callable[[Record], Cell]
#: What mixed precision is called, to tell it from storage in half precision.
MIXED = {"fp16": "fp16 (mixed)", "bf16": "bf16 (mixed)"}
NOT_STATED = Cell("not stated", quiet=True)


@dataclass(frozen=True)
class Definition:
    """A table: `member` says which Records are in it."""

    name: str
    page: str
    title: str
    intro: str
    member: Callable[[Record], bool]
    columns: tuple[tuple[Column, Shown], ...]


def build(records: Iterable[Record], findings: Sequence[Finding] = ()) -> list[Table]:
    """All tables that have a line. Lines keep the order of the Records."""
    doubted = doubts_of(findings)
    lines: dict[str, list[Line]] = {definition.name: [] for definition in TABLES}
    for record in records:
        definition = next(each for each in TABLES if each.member(record))
        lines[definition.name].append(_line(record, definition, doubted))
    return [
        Table(
            name=definition.name,
            page=definition.page,
            title=definition.title,
            intro=definition.intro,
            columns=tuple(column for column, _ in definition.columns),
            lines=tuple(lines[definition.name]),
        )
        for definition in TABLES
        if lines[definition.name]
    ]


def doubts_of(findings: Iterable[Finding]) -> Mapping[str, list[str]]:
    """What the audit doubts of each Record, in words, by its id."""
    return {
        identity: [f"{finding.severity}: {finding.message}" for finding in found]
        for identity, found in doubts(findings).items()
    }


def _line(record: Record, definition: Definition, doubted: Mapping[str, list[str]]) -> Line:
    return Line(
        id=record.id,
        cells=tuple(show(record) for _, show in definition.columns),
        flags=tuple(flags(record, doubted.get(record.id, []))),
        facets={
            "network": safe(record.job.network),
            "accelerator": safe(record.system.accelerator.name),
            "precision": safe(record.job.precision or "not stated"),
            "framework": safe(record.job.framework or record.job.engine or "not stated"),
            "scenario": safe(record.job.scenario),
            "source": record.source.value,
        },
    )


def flags(record: Record, doubted: Sequence[str]) -> Iterable[Flag]:
    """Every reason to look twice at a Record."""
    if record.job.size == "tiny":
        yield Flag("tiny", "the network with small numbers: never comparable with a full one")
    if record.status == Status.NOISY:
        yield Flag("noisy", safe("; ".join(record.reasons)) or "the interval is wider than was asked for")
    elif record.status not in USABLE:
        yield Flag("failed", safe("; ".join([record.status.value, *record.reasons])))
    for doubt in doubted:
        yield Flag("doubtful", safe(doubt))


def _title(network: str) -> str:
    return str(read("networks").get(network, {}).get("title", network))


def _network(record: Record) -> Cell:
    job = record.job
    text = _title(job.network)
    told = [str(job.parameters["task"])] if "task" in job.parameters else []
    told += [job.size] if job.size != "full" else []
    return Cell(safe(f"{text} ({', '.join(told)})" if told else text))


def _text(value: object) -> Cell:
    return NOT_STATED if value is None else Cell(safe(value))


def _count(value: object) -> Cell:
    if not isinstance(value, int | float):
        return NOT_STATED
    return Cell(f"{value:,.10g}", float(value))


def _absent(record: Record, metric: str) -> Cell:
    """Why a metric is not there; a page that prints a hyphen does not say why."""
    if record.status not in USABLE:
        return Cell(f"none: {record.status.value.replace('_', ' ')}", quiet=True)
    why = record.metrics.not_measured.get(metric)
    if why:
        return Cell(safe(f"not measured: {why}"), quiet=True)
    return NOT_STATED if record.source == Source.PUBLISHED else Cell("not measured", quiet=True)


def _framework(record: Record) -> Cell:
    return _text(record.software.framework or record.job.framework)


def _engine(record: Record) -> Cell:
    return _text(record.software.engine or record.job.engine or record.job.framework)


def _throughput(record: Record) -> Cell:
    metric = record.metrics.throughput
    if metric is None or record.status not in USABLE:
        return _absent(record, "throughput")
    return Cell(safe(f"{_figure(metric.value, metric.ci95)} {metric.unit}"), metric.value)


def _figure(value: float, ci95: tuple[float, float] | None) -> str:
    return value_and_interval(value, ci95).partition(" ±")[0]


def _minutes(record: Record) -> Cell:
    value = record.metrics.time_to_train_min
    return _absent(record, "time_to_train_min") if value is None else Cell(f"{value:,.4g}", value)


def _quality(record: Record) -> Cell:
    parts = []
    for quality in record.metrics.quality:
        value = quality.value if quality.value is not None else quality.target
        if value is not None:
            name, percent = quality.metric.removesuffix(", %"), quality.metric.endswith(", %")
            parts.append(f"{value:g}{' %' if percent else ''} {name}")
    return Cell(safe(" and ".join(parts))) if parts else _absent(record, "quality")


def _accelerators(record: Record) -> Cell:
    job = record.job
    text = f"{job.accelerators}x {record.system.accelerator.name}"
    if job.partition is not None:
        text += f" ({job.parameters.get('instances', 1)} x {job.partition})"
    return Cell(safe(text), float(job.accelerators))


def _server(record: Record) -> Cell:
    return _text(record.system.server)


def _container(record: Record) -> Cell:
    return _text(record.system.container)


def _precision(record: Record) -> Cell:
    precision = record.job.precision
    if precision is not None and record.job.scenario in ("training", "time-to-quality"):
        precision = MIXED.get(precision, precision)
    return _text(precision)


def _batch(record: Record) -> Cell:
    return _count(record.job.batch_size)


def _data(record: Record) -> Cell:
    return _text(record.job.data)


def _board(record: Record) -> Cell:
    return _text(record.system.accelerator.name)


def _system(record: Record) -> Cell:
    return _text(record.system.name)


def _latency(record: Record) -> Cell:
    latency = record.metrics.latency_ms
    for name, words in (("mean", ""), ("p99", " (p99)"), ("p90", " (p90)")):
        value = getattr(latency, name) if latency else None
        if value is not None:
            return Cell(f"{value:,.5g}{words}", value)
    return _absent(record, "latency_ms")


def _efficiency(record: Record) -> Cell:
    efficiency = record.metrics.efficiency
    if efficiency is None:
        return _absent(record, "energy_j" if "energy_j" in record.metrics.not_measured else "power_w")
    basis = record.metrics.power_basis or "basis not stated"
    return Cell(safe(f"{efficiency.value:,.5g} {efficiency.unit} ({basis})"), efficiency.value)


def _bound(record: Record) -> Cell:
    return _count(record.job.parameters.get("latency_bound_ms"))


def _parameter(name: str) -> Shown:
    def show(record: Record) -> Cell:
        value = record.job.parameters.get(name)
        return _count(value) if isinstance(value, int | float) else _text(value)

    return show


def _condition(name: str) -> Shown:
    return lambda record: _text(record.conditions.get(name))


def _length(record: Record) -> Cell:
    return _count(record.job.sequence_length)


def _seconds(name: str) -> Shown:
    def show(record: Record) -> Cell:
        value = getattr(record.metrics, name)
        return _absent(record, name) if value is None else Cell(f"{value:g}", value)

    return show


def _ratio(record: Record) -> Cell:
    value = record.metrics.ratio
    return _absent(record, "ratio") if value is None else Cell(f"{value:.2f}x", value)


def _scaling(record: Record) -> Cell:
    scaling = record.metrics.scaling
    if scaling is None:
        return Cell("no single-accelerator Record beside it", quiet=True)
    return Cell(safe(f"{scaling.efficiency:.0%} ({scaling.basis})"), scaling.efficiency)


def _interval(record: Record) -> Cell:
    metric = record.metrics.throughput
    if metric is not None and metric.ci95 is not None and record.status in USABLE:
        low, high = metric.ci95
        half = max(high - metric.value, metric.value - low) / metric.value
        return Cell(f"{number(low)} to {number(high)} (±{half:.1%})", half)
    runs = record.samples.runs
    if runs:
        minutes = [run.minutes for run in runs if run.minutes is not None]
        span = f"{min(minutes):.4g} to {max(minutes):.4g} min" if minutes else "none finished"
        return Cell(f"{len(runs)} runs: {span}")
    if record.source == Source.MEASURED:
        return Cell("no interval", quiet=True)
    return Cell("no spread stated", quiet=True)


def _status(record: Record) -> Cell:
    return Cell(record.status.value.replace("_", " "))


def _source(record: Record) -> Cell:
    origin = record.origin
    if origin is None:
        return Cell("measured here" if record.source == Source.MEASURED else record.source.value)
    place = origin.file or origin.page or "not named"
    if record.source is Source.PUBLISHED:
        place = record.id.partition("/")[0] if origin.file is None else origin.file
    line = f", line {origin.line}" if origin.line else ""
    return Cell(safe(f"{record.source.value}: {place}{line}"))


_LAST: tuple[tuple[Column, Shown], ...] = (
    (
        Column("95 % interval", True, "where the true mean lies with 95 % confidence, if the source says"),
        _interval,
    ),
    (Column("Status"), _status),
    (Column("Source"), _source),
)
_C_FRAMEWORK = (Column("Framework"), _framework)
_C_NETWORK = (Column("Network"), _network)
_C_MINUTES = (Column("Time to train (min)", True), _minutes)
_C_THROUGHPUT = (Column("Throughput", True), _throughput)
_C_GPU = (Column("Accelerators"), _accelerators)
_C_SERVER = (Column("Server"), _server)
_C_CONTAINER = (Column("Container"), _container)
_C_PRECISION = (Column("Precision"), _precision)
_C_BATCH = (Column("Batch size", True, "per accelerator, or per instance of a partitioned one"), _batch)
_C_DATA = (Column("Data set"), _data)
_C_BOARD = (Column("Board"), _board)
_C_LATENCY = (Column("Latency (ms)", True), _latency)
_C_EFFICIENCY = (Column("Throughput per watt", True, "of boards, packages or the whole system"), _efficiency)


def _is(*scenarios: str) -> Callable[[Record], bool]:
    return lambda record: record.job.scenario in scenarios


def _mlperf(scenario: str, power: bool) -> Callable[[Record], bool]:
    return lambda record: (
        record.job.scenario == scenario and bool(record.conditions.get("power_run")) == power
    )


_OFFLINE = (
    _C_NETWORK,
    _C_THROUGHPUT,
    (Column("Target accuracy"), _quality),
    _C_GPU,
    _C_SERVER,
    _C_DATA,
    _C_BOARD,
    *_LAST,
)
_POWER = (_C_NETWORK, _C_THROUGHPUT, _C_EFFICIENCY, _C_GPU, _C_SERVER, _C_DATA, _C_BOARD, *_LAST)
_SERVER = (*_OFFLINE[:3], (Column("Latency constraint (ms)", True), _bound), *_OFFLINE[3:])
_TRAINING = (
    _C_FRAMEWORK,
    _C_NETWORK,
    _C_THROUGHPUT,
    _C_GPU,
    _C_SERVER,
    _C_CONTAINER,
    _C_PRECISION,
    _C_BATCH,
    _C_DATA,
    _C_BOARD,
)

TABLES = (
    Definition(
        "mlperf-training",
        "convergence",
        "MLPerf training: time to train",
        "Minutes of training until the rule book's quality target was reached.",
        lambda record: record.job.scenario == "time-to-quality" and "rules" in record.job.parameters,
        (
            _C_FRAMEWORK,
            _C_NETWORK,
            _C_MINUTES,
            (Column("MLPerf quality target"), _quality),
            _C_GPU,
            _C_SERVER,
            (Column("MLPerf-ID"), _condition("mlperf_id")),
            _C_PRECISION,
            _C_DATA,
            _C_BOARD,
            *_LAST,
        ),
    ),
    Definition(
        "convergence",
        "convergence",
        "Converged training",
        "Minutes of training until the accuracy in the table was reached, and the throughput on the way. "
        "Times to different accuracies are times of different jobs.",
        _is("time-to-quality"),
        (
            _C_FRAMEWORK,
            _C_NETWORK,
            _C_MINUTES,
            (Column("Accuracy"), _quality),
            *_TRAINING[2:],
            *_LAST,
        ),
    ),
    Definition(
        "ratios",
        "training",
        "Lambda's study: RTX A6000 over RTX 3090",
        "Training speed of one board over the other's, averaged over networks. Each ran the largest batch "
        "that fits into its memory.",
        lambda record: record.metrics.ratio is not None,
        (
            _C_FRAMEWORK,
            (Column("Networks"), _network),
            (Column("Accelerators"), _accelerators),
            _C_PRECISION,
            (Column("Over"), _parameter("over")),
            (Column("Ratio", True), _ratio),
            (Column("Peer to peer"), _condition("peer_to_peer")),
            *_LAST,
        ),
    ),
    Definition(
        "study-figures",
        "training",
        "The figures behind Lambda's ratios",
        "Training throughput of each network, from the tables that the study's page names.",
        is_figure,
        (*_TRAINING, *_LAST),
    ),
    Definition(
        "training-one",
        "training",
        "Training throughput, one accelerator",
        "Units processed in a second of training.",
        lambda record: record.job.scenario == "training" and record.job.accelerators == 1,
        (*_TRAINING, *_LAST),
    ),
    Definition(
        "training-several",
        "training",
        "Training throughput, several accelerators",
        "Summed over all accelerators; the efficiency is against as many times one of them.",
        _is("training"),
        (*_TRAINING, (Column("Scaling efficiency", True), _scaling), *_LAST),
    ),
    Definition(
        "inference",
        "inference",
        "Inference",
        "Throughput and latency at a batch size.",
        _is("inference"),
        (
            _C_NETWORK,
            _C_BATCH,
            _C_THROUGHPUT,
            (Column("Efficiency", True, "throughput per watt"), _efficiency),
            _C_LATENCY,
            _C_GPU,
            _C_SERVER,
            _C_CONTAINER,
            _C_PRECISION,
            _C_DATA,
            (Column("Framework"), _engine),
            _C_BOARD,
            *_LAST,
        ),
    ),
    Definition(
        "offline",
        "mlperf",
        "MLPerf inference: offline",
        "All samples at once: throughput, whatever the latency.",
        _mlperf("offline", False),
        _OFFLINE,
    ),
    Definition(
        "server",
        "mlperf",
        "MLPerf inference: server",
        "Queries at random times, 99 of 100 answered within the constraint.",
        _mlperf("server", False),
        _SERVER,
    ),
    Definition(
        "power-offline",
        "mlperf",
        "MLPerf inference: offline, with power",
        "Power is that of the whole system at its supply.",
        _mlperf("offline", True),
        _POWER,
    ),
    Definition(
        "power-server",
        "mlperf",
        "MLPerf inference: server, with power",
        "Power is that of the whole system at its supply.",
        _mlperf("server", True),
        _POWER,
    ),
    Definition(
        "streams",
        "mlperf",
        "MLPerf inference: single and multi stream",
        "One query after the other, or a fixed number of samples at a time: latency counts.",
        _is("single-stream", "multi-stream"),
        (_C_NETWORK, _C_LATENCY, *_OFFLINE[1:]),
    ),
    Definition(
        "serving",
        "serving",
        "Model server under concurrent clients",
        "Each client sends its next request when the last one is answered.",
        _is("serving"),
        (
            _C_NETWORK,
            (Column("Accelerator"), _board),
            _C_FRAMEWORK,
            (Column("Backend"), _engine),
            _C_PRECISION,
            (Column("Model instances", True), _parameter("model_instances")),
            (Column("Client batch size", True), _parameter("client_batch_size")),
            (Column("Dynamic batch size", True), _parameter("dynamic_batch_size")),
            (Column("Concurrent requests", True), _parameter("concurrent_requests")),
            _C_LATENCY,
            _C_THROUGHPUT,
            (Column("Sequence length", True), _length),
            _C_CONTAINER,
            *_LAST,
        ),
    ),
    Definition(
        "speech-recognition",
        "speech",
        "Speech recognition",
        "Streams of audio, paced as live: below saturation RTFX is the number of streams and says nothing "
        "of speed.",
        _is("speech-recognition"),
        (
            (Column("Mode"), _parameter("mode")),
            (
                Column("Chunk (ms)", True, "audio that the acoustic model takes at a time"),
                _parameter("chunk_ms"),
            ),
            (Column("Acoustic model"), _network),
            (Column("Streams", True), _parameter("streams")),
            (Column("Average latency (ms)", True), _latency),
            _C_THROUGHPUT,
            _C_BOARD,
            _C_SERVER,
            *_LAST,
        ),
    ),
    Definition(
        "language-service",
        "speech",
        "Language services",
        "Named entities and question answering for streams of requests.",
        _is("language-service"),
        (
            (Column("Task"), _network),
            (Column("Sequence length", True), _length),
            (Column("Streams", True), _parameter("streams")),
            (Column("Average latency (ms)", True), _latency),
            _C_THROUGHPUT,
            _C_BOARD,
            _C_SERVER,
            *_LAST,
        ),
    ),
    Definition(
        "speech-synthesis",
        "speech",
        "Speech synthesis",
        "Text in, audio out: how soon the first audio comes and how far ahead of real time the rest is.",
        _is("speech-synthesis"),
        (
            _C_NETWORK,
            (Column("Streams", True), _parameter("streams")),
            (Column("Time to first audio (s)", True), _seconds("time_to_first_audio_s")),
            (Column("Time between chunks (s)", True), _seconds("time_between_chunks_s")),
            _C_THROUGHPUT,
            _C_BOARD,
            _C_SERVER,
            *_LAST,
        ),
    ),
    Definition(
        "ceilings",
        "systems",
        "Ceilings of the machines",
        "What each machine can do at most, measured: matrix products, copies, links, all-reduce.",
        _is("ceiling"),
        (
            (Column("System"), _system),
            (Column("What"), _network),
            _C_PRECISION,
            _C_GPU,
            _C_THROUGHPUT,
            *_LAST,
        ),
    ),
    Definition(
        "others",
        "overview",
        "Other Records",
        "Records of scenarios that no other table has.",
        lambda record: True,
        (
            (Column("Scenario"), lambda record: _text(record.job.scenario)),
            _C_NETWORK,
            _C_THROUGHPUT,
            _C_GPU,
            *_LAST,
        ),
    ),
)
