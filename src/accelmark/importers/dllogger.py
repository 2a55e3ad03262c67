"""Logs written with DLLogger, the logger of NVIDIA's DeepLearningExamples.

Two forms, of which a file may hold both; the first is read where there is one:

- lines of JSON, `DLLL {"timestamp": ..., "elapsedtime": ..., "type": "LOG", "step": ..., "data": {...}}`,
  whose units are in lines of type `METADATA`;
- what the same program prints, `DLL 2021-04-19 12:00:00.000000 - Epoch: 0 Iteration: 10 name : value unit`.

The step tells what a line is: `PARAMETER` for arguments, empty for the summary at the end, numbers for
progress. Only the summary holds results. Every example names its metrics in its own way, so they are
recognised by parts of their names (`train_throughput`, `training_sequences_per_second`, `val.total_ips`). A
figure without a unit, in the metadata or in its name, is none; it is named in the Record's reasons.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from accelmark import names
from accelmark.errors import UnreadableInputError
from accelmark.importers.lines import MAX_LINE, text
from accelmark.importers.summary import Summary
from accelmark.job import Job, Scalar
from accelmark.record import Latency, Metrics, Origin, Quality, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Software, System
from accelmark.text import safe

SET = "dllogger"
ENDINGS = (".json", ".log", ".txt")
MAX_ROW = 300
#: More metrics than this no summary has; more are not kept, so that no file fills the memory.
MAX_METRICS = 1000

NO_SUMMARY = "the log ends without a summary"
NO_LINES = "the file has no line of DLLogger's"
NOTHING_KNOWN = "the summary has no throughput, latency or quality that is known"
BOARD_NOT_NAMED = "accelerator not named"
COUNT_NOT_SAID = "the log does not say how many accelerators ran"


_BLOCK = 1 << 18


@dataclass(frozen=True)
class Failure:
    """A line in which a program says that it failed."""

    text: str
    out_of_memory: bool


#: What a line must hold for `failure` to find one in it.
FAILURE_MARKERS = (b"out of memory", b"OutOfMemory", b"Error: ", b"Exception: ")
_ERROR = re.compile(rb"(?:^|[\s:])((?:[A-Za-z_]+\.)*[A-Za-z_]*(?:Error|Exception): .*)")


def failure(line: bytes) -> Failure | None:
    """What a line of a log says of a failure: a Python error, or that memory ran out."""
    if not any(marker in line for marker in FAILURE_MARKERS):
        return None
    out_of_memory = b"out of memory" in line or b"OutOfMemory" in line
    match = _ERROR.search(line)
    if not match and not out_of_memory:
        return None
    return Failure(text(match[1] if match else line.strip())[:MAX_ROW], out_of_memory)


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """A file in blocks of whole lines, each with the number of its first line.

    Lines are cut as `lines` does. For logs of which only few lines matter: searching a block is many times as
    fast as looking at each of its lines. Raises `OSError` if the file cannot be read.
    """
    with path.open("rb") as file:
        number, rest, skipping = 1, b"", False
        while chunk := file.read(_BLOCK):
            if skipping:
                # The rest of a line that is too long is passed over, but for its end.
                end = chunk.find(b"\n")
                if end < 0:
                    continue
                chunk, skipping = chunk[end:], False
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            if end:
                yield number, block[:end]
            number += block.count(b"\n", 0, end)
            rest = block[end : end + MAX_LINE]
            skipping = len(block) - end > MAX_LINE
        if rest:
            yield number, rest


def hits(block: bytes, number: int, markers: Sequence[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """The lines of a block that hold a marker: number, line, and where in the block it ends."""
    found: dict[int, int] = {}
    for marker in markers:
        place = block.find(marker)
        while place >= 0:
            end = block.find(b"\n", place) + 1 or len(block)
            found[block.rfind(b"\n", 0, place) + 1] = end
            place = block.find(marker, end)
    counted = 0
    for start in sorted(found):
        number += block.count(b"\n", counted, start)
        counted = start
        yield number, block[start : found[start]], found[start]


# --- lines ------------------------------------------------------------------------------------------------

_PLAIN = re.compile(
    rb"DLL ([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?) - ([^\r\n]*)"
)
#: How printed lines begin that belong to no step; some examples print nothing for it.
_PLAIN_SUMMARY = (b"() ", b"[] ", b"Summary: ", b" ")
_PLAIN_PARAMETERS = b"PARAMETER "
#: What is in the lines that matter. All others, nearly all of a long file, are progress and only counted.
_MARKERS = (
    *(b'"step":' + space + step for space in (b"", b" ") for step in (b"[]", b'"')),
    b'"METADATA"',
    *(b" - " + step for step in (*_PLAIN_SUMMARY, _PLAIN_PARAMETERS)),
    *FAILURE_MARKERS,
)
#: `name : value`, and a unit if one follows and is not the next metric's name.
_PLAIN_METRIC = re.compile(r"(?<!\S)([A-Za-z_][^\s:]{0,100}) : (\S+)(?: (?!\S+ : )(\S+))?(?!\S)")
_PLAIN_PARAMETER = re.compile(r"(?<!\S)([A-Za-z_][^\s:]{0,100}) : (\S+)(?!\S)")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?")
_PARAMETER_STEPS = {"PARAMETER", "HPARAMS", "ENVIRONMENT"}
_SUMMARY_STEPS = {"RUN", "SUMMARY", "FINAL"}


@dataclass(frozen=True)
class _Figure:
    """A number of the summary. `unit` only where the line itself gives it."""

    name: str
    value: float
    unit: str | None
    line: int
    row: str


@dataclass
class _Log:
    """What the lines of one form say: all, and those that are no progress. Arguments are kept as text."""

    marker: bytes
    entries: int = 0
    others: int = 0
    following: int = 0
    summary_end: int = 0
    first: bytes = b""
    last: bytes = b""
    last_summary: int | None = None
    units: dict[str, str] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, set[str]] = field(default_factory=dict)
    figures: dict[str, _Figure] = field(default_factory=dict)
    differing: set[str] = field(default_factory=set)
    damaged: int | None = None

    def account(self, block: bytes) -> None:
        """Count a block's lines of this form, once one is found; keep the first and the last."""
        if not self.first:
            lines = (line for _, line, _ in hits(block, 1, (self.marker,)))
            self.first = next((line for line in lines if _is_entry(line)), b"")
        last = block.rfind(self.marker)
        if not self.first or last < 0:
            return
        self.entries += block.count(self.marker)
        self.following += block.count(self.marker, self.summary_end)
        self.summary_end = 0
        self.last = block[last:].partition(b"\n")[0]

    def figure(self, figure: _Figure) -> None:
        """Keep a number of the summary. One that is given again with another value is not certain."""
        known = self.figures.get(figure.name)
        if known is None and len(self.figures) >= MAX_METRICS:
            return
        if known is not None and known.value != figure.value:
            self.differing.add(figure.name)
        self.figures[figure.name] = figure

    def summary(self, number: int, end: int) -> None:
        """Note a summary, and where in its block it ends: what follows it is counted with the block."""
        self.last_summary = number
        self.summary_end = end
        self.following = 0

    def argument(self, name: str, value: object) -> None:
        key = name.lower().lstrip("-").replace("-", "_")
        if key not in _ARGUMENTS or not isinstance(value, Scalar):
            return
        values = self.arguments.setdefault(key, set())
        said = str(value)[:200]
        if len(values) < 10 and said.isprintable() and said not in ("", "None"):
            values.add(said)

    def said(self, *keys: str) -> str | None:
        """The value of the first of these arguments that has one value."""
        for key in keys:
            values = self.arguments.get(key, set())
            if len(values) == 1:
                return next(iter(values))
        return None

    def count(self, *keys: str) -> int | None:
        """As `said`, for a number of things; what is no number of at least one is passed over."""
        for key in keys:
            value = self.said(key) or ""
            if re.fullmatch(r"[0-9]{1,9}", value) and int(value):
                return int(value)
        return None


def _number(value: object) -> float | None:
    """A finite number: JSON's, or as text in ASCII digits."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip(" ")):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) >= 10**18:
        return None
    return float(value) if math.isfinite(value) else None


def _decode(line: bytes) -> dict[str, object] | None:
    """The JSON object of a `DLLL` line, or `None` if it is damaged."""
    start = line.find(b"{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(line[start:].decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_entry(line: bytes) -> bool:
    """Whether a line is really DLLogger's, and whole as far as that can be told."""
    if b"DLLL {" in line:
        return "type" in (_decode(line) or {})
    return _PLAIN.search(line) is not None


def _read_json(log: _Log, number: int, line: bytes, end: int) -> None:
    """Take in a `DLLL` line that is no progress and ends at this place of its block."""
    entry = _decode(line)
    if entry is None:
        log.damaged = log.damaged or number
        return
    if entry.get("type") == "METADATA":
        log.others += 1
        _read_metadata(log, entry)
        return
    step, data = entry.get("step"), entry.get("data")
    if not isinstance(data, dict) or not (step == [] or isinstance(step, str)):
        return
    log.others += 1
    if step == [] or step in _SUMMARY_STEPS:
        log.summary(number, end)
        row = text(line)[:MAX_ROW]
        for name, value in data.items():
            if _is_metric(name) and (figure := _number(value)) is not None:
                log.figure(_Figure(name, figure, None, number, row))
    elif step in _PARAMETER_STEPS:
        for name, value in data.items():
            log.argument(name, value)


def _read_metadata(log: _Log, entry: dict[str, object]) -> None:
    name, metadata = entry.get("metric"), entry.get("metadata")
    if not isinstance(name, str) or not isinstance(metadata, dict) or not _is_metric(name):
        return
    if len(log.units) >= MAX_METRICS or len(log.stages) >= MAX_METRICS:
        return
    if isinstance(unit := metadata.get("unit"), str) and unit and unit.isprintable():
        log.units[name] = unit
    if isinstance(stage := metadata.get("STAGE"), str):
        log.stages[name] = stage


def _read_plain(log: _Log, number: int, line: bytes, end: int) -> None:
    """Take in a `DLL` line that is no progress. One without its end may be cut off inside a number."""
    match = _PLAIN.search(line)
    if not match or not line.endswith(b"\n"):
        return
    rest = match[2]
    if rest.startswith(_PLAIN_PARAMETERS):
        log.others += 1
        for name, value in _PLAIN_PARAMETER.findall(text(rest)):
            log.argument(name, value)
    elif rest.startswith(_PLAIN_SUMMARY):
        log.others += 1
        log.summary(number, end)
        row = text(line)[:MAX_ROW]
        for name, value, unit in _PLAIN_METRIC.findall(text(rest)):
            if _is_metric(name) and (figure := _number(value)) is not None:
                log.figure(_Figure(name, figure, unit or None, number, row))


# --- metrics ----------------------------------------------------------------------------------------------

_THROUGHPUT = re.compile(
    r"throughp?o?ut|(?:^|[._])ips(?:$|[._])|(?:items|samples|imgs?)_sec(?:$|[._])|_per_sec|/s(?:ec|econd)?$"
    r"|(?:^|_)fps(?:$|_)|(?:^|_)speed(?:$|_)"
)
#: No throughput of the whole: of one accelerator, an extreme, a target, without loading data, of other work.
_NOT_WHOLE = re.compile(r"per_gpu|(?:^|[._])(?:min|max|target|calib|p\d\d)[._]|compute_ips|step|batch_?\d")
_LATENCY = re.compile(r"latency")
_STATISTIC = re.compile(
    r"(?P<p>(?:^|[._p])(?:50|90|95|97|99[._]9|99)(?:pct|th|%)?)(?![0-9])|avg|average|mean|median|min|max"
)
_STATISTICS = {
    "avg": "mean",
    "average": "mean",
    "mean": "mean",
    "median": "p50",
    "min": "min",
    "max": "max",
}
_QUALITY = re.compile(
    r"(?:.*[._ ])?(?:top_?[15](?:_accuracy)?|accuracy(?:_top_[15])?|(?:top_k_)?accuracy_[15]|f1|exact_match"
    r"|auc|(?:bbox_|mask_)?m?ap|wer|bleu|hr(?:@\d\d?)?|ndcg(?:@\d{1,3})?|dice(?:_score)?|perplexity|mcc)"
)
_TRAINING = re.compile(r"(?:^|[._/])train(?:ing)?(?:$|[._/])")
_INFERENCE = re.compile(
    r"(?:^|[._/])(?:infer|inference|inf|eval|evaluation|val|valid|validation|test|predict)(?:$|[._/])"
)
_STAGES = {"TRAIN": "training", "VAL": "inference", "TEST": "inference"}
_RATE = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,40}/s")
#: Rates of the loop are no rates of work.
_LOOP = re.compile(r"(?:it|iters?|iterations?|steps?|batch(?:es)?|epochs?)/s", re.IGNORECASE)
_UNITS_IN_NAMES = (
    (re.compile(r"(?:imgs?|images?)(?:/s|_per_s|_sec)"), "images/s"),
    (re.compile(r"tok(?:en)?s?(?:/s|_per_s)"), "tokens/s"),
    (re.compile(r"seq(?:uence)?s?(?:/s|_per_s)"), "sequences/s"),
    (re.compile(r"sentences?(?:/s|_per_s)"), "sentences/s"),
    (re.compile(r"samples?(?:/s|_per_s|_sec)"), "samples/s"),
    (re.compile(r"examples?(?:/s|_per_s)"), "examples/s"),
    (re.compile(r"words?(?:/s|_per_s)"), "words/s"),
    (re.compile(r"items?(?:/s|_per_s|_sec)"), "items/s"),
)


def _is_metric(name: str) -> bool:
    lower = name.lower()
    return (
        len(name) <= 150
        and name.isprintable()
        and bool(_THROUGHPUT.search(lower) or _LATENCY.search(lower) or _QUALITY.fullmatch(lower))
    )


def _rank(name: str) -> int:
    """Which of several throughputs is the headline: of the whole run or its mean first, its best last."""
    parts = set(re.split(r"[._/]", name.lower()))
    if parts & {"total", "avg", "average", "mean"}:
        return 0
    if parts & {"med", "median"}:
        return 2
    return 3 if "best" in parts else 1


def _mode(log: _Log) -> str | None:
    """Training or inference, by the arguments."""
    mode = (log.said("mode", "exec_mode") or "").lower()
    training = "train" in mode
    inference = bool(re.search(r"infer|predict|eval|test|benchmark_inf", mode))
    if training != inference:
        return "training" if training else "inference"
    return None


def _stage(log: _Log, name: str) -> str | None:
    """Training or inference: by the metric's name, its metadata, or the arguments."""
    lower = name.lower()
    training, inference = bool(_TRAINING.search(lower)), bool(_INFERENCE.search(lower))
    if training != inference:
        return "training" if training else "inference"
    return _STAGES.get(log.stages.get(name, "").upper()) or _mode(log)


def _unit(log: _Log, figure: _Figure) -> str | None:
    """The unit of a throughput: from its line, its metadata, or its name."""
    given = figure.unit or log.units.get(figure.name)
    if given is not None:
        unit = names.unit(given)
        return unit if _RATE.fullmatch(unit) and not _LOOP.fullmatch(unit) else None
    lower = figure.name.lower()
    return next((unit for pattern, unit in _UNITS_IN_NAMES if pattern.search(lower)), None)


@dataclass
class _Stage:
    """The figures of training, or of inference, and what there is to say about them."""

    throughput: _Figure | None = None
    unit: str = ""
    latency: Latency | None = None
    latency_line: _Figure | None = None
    reasons: list[str] = field(default_factory=list)


def _stages(log: _Log) -> tuple[dict[str, _Stage], list[str]]:
    """What the summary says of training and of inference; and what could not be told to belong to either."""
    stages: dict[str, _Stage] = {}
    reasons: list[str] = []
    candidates: dict[str, list[_Figure]] = {}
    latencies: dict[str, list[_Figure]] = {}
    for figure in log.figures.values():
        lower = figure.name.lower()
        if figure.name in log.differing:
            # Each rank's, each epoch's, or those of several runs: none is the result of the whole.
            reasons.append(
                f"{figure.name} is not used: the log gives it several times, with different values"
            )
        elif _LATENCY.search(lower):
            latencies.setdefault(_stage(log, figure.name) or "inference", []).append(figure)
        elif _THROUGHPUT.search(lower) and _NOT_WHOLE.search(lower):
            reasons.append(f"{figure.name} is not used: it is no throughput of the whole run")
        elif _THROUGHPUT.search(lower):
            of = _stage(log, figure.name)
            if of is None:
                reasons.append(f"{figure.name} = {figure.value:g}: of training or of inference is not said")
            else:
                candidates.setdefault(of, []).append(figure)
    for scenario in ("training", "inference"):
        if scenario not in candidates and scenario not in latencies:
            continue
        stage = stages[scenario] = _Stage()
        _choose(log, candidates.get(scenario, []), stage)
        if scenario == "inference":
            _latency(log, latencies.get(scenario, []), stage)
        else:
            stage.reasons += [
                f"{figure.name}: latencies of training steps are not kept"
                for figure in latencies.get(scenario, [])
            ]
    return stages, reasons


def _choose(log: _Log, figures: list[_Figure], stage: _Stage) -> None:
    """Pick the headline; every other throughput is named."""
    usable: list[tuple[int, int, _Figure, str]] = []
    for place, figure in enumerate(figures):
        unit = _unit(log, figure)
        if unit is None:
            given = figure.unit or log.units.get(figure.name)
            why = f"its unit {given} is no rate of work" if given else "it has no unit"
            stage.reasons.append(f"{figure.name} = {figure.value:g} is not used: {why}"[:MAX_ROW])
        elif figure.value <= 0:
            stage.reasons.append(f"{figure.name} = {figure.value:g} is not used: it is not positive")
        else:
            usable.append((_rank(figure.name), place, figure, unit))
    usable.sort(key=lambda item: item[:2])
    if not usable:
        return
    _, _, stage.throughput, stage.unit = usable[0]
    stage.reasons.append(f"the figure is {stage.throughput.name}")
    stage.reasons += [f"beside it: {other.name} = {other.value:g} {unit}" for _, _, other, unit in usable[1:]]


def _latency(log: _Log, figures: list[_Figure], stage: _Stage) -> None:
    """Latencies in milliseconds. Two families of them (of stages, of batch sizes) are not one latency."""
    found: dict[str, float] = {}
    families: set[str] = set()
    for figure in figures:
        lower = figure.name.lower()
        statistic = _STATISTIC.search(lower)
        unit = figure.unit or log.units.get(figure.name) or ("ms" if lower.endswith("_ms") else None)
        scale = {"s": 1000.0, "ms": 1.0}.get(unit or "")
        if statistic is None:
            stage.reasons.append(f"{figure.name} is not used: it does not say which statistic it is")
        elif scale is None:
            stage.reasons.append(f"{figure.name} is not used: its unit is {unit or 'not given'}"[:MAX_ROW])
        elif not 0 < figure.value * scale < math.inf:
            stage.reasons.append(f"{figure.name} is not used: it is not positive")
        else:
            digits = re.sub(r"[^0-9]", "", statistic["p"] or "")
            key = f"p{digits.replace('999', '99_9')}" if digits else _STATISTICS[statistic[0]]
            families.add(re.sub(r"[._]+", "_", lower.replace(statistic[0], "")).strip("_"))
            found[key] = figure.value * scale
            stage.latency_line = figure
    if len(families) > 1:
        stage.reasons.append(
            f"the latencies are of several things and not used: {', '.join(sorted(families))}"[:MAX_ROW]
        )
    elif found:
        stage.latency = Latency.model_validate(found)


def _quality(log: _Log) -> list[Quality]:
    """Quality metrics of the summary, by the log's own names; whether in percent, it does not say."""
    return [
        Quality(metric=figure.name, value=figure.value)
        for figure in log.figures.values()
        if _QUALITY.fullmatch(figure.name.lower())
        and not _TRAINING.search(figure.name.lower())
        and figure.name not in log.differing
    ]


# --- arguments --------------------------------------------------------------------------------------------

#: Not `bert_model`: that is where the vocabulary is from, and logs of the base network say bert-large there.
_NETWORK = ("arch", "model_name", "model", "network", "architecture")
_COUNTS = ("world_size", "num_gpus", "n_gpus", "gpu_count", "num_gpu", "ngpus", "gpus")
_BATCHES = {
    "training": ("train_batch_size", "batch_size"),
    "inference": (
        "inference_batch_size",
        "infer_batch_size",
        "predict_batch_size",
        "eval_batch_size",
        "test_batch_size",
        "val_batch_size",
        "batch_size",
    ),
}
_PER_ACCELERATOR = ("batch_size_per_gpu", "local_batch_size")
_PRECISIONS = ("precision", "training_precision", "dtype")
_OTHERS = (
    "amp",
    "fp16",
    "use_amp",
    "use_fp16",
    "bf16",
    "tf32",
    "mode",
    "exec_mode",
    "dataset",
    "dataset_name",
    "data_backend",
    "max_seq_length",
    "tgt_len",
    "nodes",
    "num_nodes",
    "nnodes",
    "framework",
    "cuda_version",
    "cudnn_version",
    "nccl_version",
    "nvidia_pytorch_version",
    "nvidia_tensorflow_version",
)
_ARGUMENTS = frozenset(
    (
        *_NETWORK,
        *_COUNTS,
        *_PER_ACCELERATOR,
        *_PRECISIONS,
        *_OTHERS,
        *(k for keys in _BATCHES.values() for k in keys),
    )
)
#: How the examples call the networks that have a canonical name. Their ResNet-50 is v1.5.
_NETWORKS = {
    "resnet50": "resnet50-v1.5",
    "resnext101-32x4d": "resnext101-32x4d",
    "se-resnext101-32x4d": "se-resnext101-32x4d",
    "efficientnet-b0": "efficientnet-b0",
    "efficientnet-b4": "efficientnet-b4",
    "tacotron2": "tacotron2",
    "tacotron2-pyt": "tacotron2",
    "waveglow": "waveglow",
    "waveglow-pyt": "waveglow",
    "fastpitch": "fastpitch",
    "fastpitch-pyt": "fastpitch",
}
_TRUE = {"True", "true", "1"}
_FALSE = {"False", "false", "0"}
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._+-]{0,79}")


def _network(log: _Log, file: str, reasons: list[str]) -> str:
    """The network by the arguments. One that is not named gets a name of its own, equal to no other's."""
    for key in _NETWORK:
        found = {
            _NETWORKS.get(name.lower().replace("_", "-"), name)
            for name in log.arguments.get(key, ())
            if _PLAIN_NAME.fullmatch(name)
        }
        if len(found) == 1:
            return found.pop()
    reasons.append("the log's arguments do not name the network")
    return f"not-named:{file}"[:200]


def _precision(log: _Log, reasons: list[str]) -> str | None:
    """The precision by the arguments; `None` where they say nothing, or contradict each other."""
    found = {names.precision(value) for key in _PRECISIONS for value in log.arguments.get(key, ())}
    for key, precision in (("amp", "fp16"), ("use_amp", "fp16"), ("fp16", "fp16"), ("use_fp16", "fp16")):
        if log.said(key) in _TRUE and log.said("bf16") not in _TRUE:
            found.add(precision)
    if log.said("bf16") in _TRUE:
        found.add("bf16")
    if not found and log.said("tf32") in _TRUE:
        found.add("tf32")
    known = found & {"fp32", "tf32", "fp16", "bf16", "int8"}
    # Programs say fp32 of 32-bit storage; the boards that could multiply it in TF32 did so by default.
    if found == {"fp32"} and log.said("tf32") not in _FALSE:
        reasons.append("32-bit; whether its products ran in TF32 is not said")
        return None
    if len(found) == 1 and known:
        return known.pop()
    if found:
        reasons.append(f"the arguments do not give one precision: {', '.join(sorted(found))}"[:MAX_ROW])
    else:
        reasons.append("the arguments do not say the precision")
    return None


def _batch_size(log: _Log, scenario: str, accelerators: int | None, reasons: list[str]) -> int | None:
    """The batch on each accelerator. A `batch_size` of several accelerators may be theirs together."""
    if scenario == "training" and (each := log.count(*_PER_ACCELERATOR)):
        return each
    key = next((key for key in _BATCHES[scenario] if log.count(key)), None)
    if key is None:
        reasons.append("the arguments do not give one batch size")
        return None
    batch = log.count(key)
    if accelerators == 1:
        return batch
    reasons.append(f"{key} {batch}: whether on each accelerator or on all together is not said")
    return None


def _data(log: _Log) -> str | None:
    if (log.said("data_backend") or "").lower() in ("synthetic", "syntetic"):
        return "synthetic"
    name = log.said("dataset_name", "dataset") or ""
    return names.dataset(name) if _PLAIN_NAME.fullmatch(name) else None


def _framework(log: _Log) -> str | None:
    if name := log.said("framework"):
        return names.framework(name)
    found = [f for f in ("pytorch", "tensorflow") if log.said(f"nvidia_{f}_version")]
    return found[0] if len(found) == 1 else None


# --- times ------------------------------------------------------------------------------------------------


def _seconds(line: bytes, key: str) -> float | None:
    entry = _decode(line) or {}
    return _number(entry.get(key))


def _started(log: _Log) -> datetime | None:
    """The first line's time, which JSON lines give in seconds since 1970."""
    seconds = _seconds(log.first, "timestamp")
    if seconds is None or not 946684800 <= seconds < 4102444800:  # the years 2000 to 2099
        return None
    return datetime.fromtimestamp(seconds, UTC)


def _duration(log: _Log) -> float | None:
    """Seconds from the first to the last line, if the clock ran forward (a second run resets it)."""
    times = [_clock(line) for line in (log.first, log.last)]
    if times[0] is None or times[1] is None or times[1] < times[0]:
        return None
    return times[1] - times[0]


def _clock(line: bytes) -> float | None:
    if b"DLLL" in line:
        return _seconds(line, "elapsedtime")
    match = _PLAIN.search(line)
    try:
        # The zone does not matter for a difference.
        return datetime.fromisoformat(match[1].decode()).replace(tzinfo=UTC).timestamp() if match else None
    except ValueError:
        return None


# --- files ------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[Record], Summary]:
    """Read a file, or all `.json`, `.log` and `.txt` files in a folder that hold lines of DLLogger's.

    A file gives a Record for training, one for inference, or both. Raises `UnreadableInputError` if the path
    does not exist or nothing in it is DLLogger's.
    """
    if not path.exists():
        raise UnreadableInputError(f"{safe(path)} does not exist; give a DLLogger file or a folder of them.")
    summary = Summary()
    records: list[Record] = []
    root = path if path.is_dir() else path.parent
    for file in _files(path):
        # What is no UTF-8 in a path becomes U+FFFD, which JSON can hold.
        name = text(os.fsencode(file.relative_to(root)))
        try:
            log, failures = _scan(file)
        except OSError as error:
            summary.skip(name, None, f"the file cannot be read: {error.strerror}")
            continue
        if not log.entries:
            summary.skip(name, None, NO_LINES)
            continue
        if log.damaged:
            summary.note(name, log.damaged, "the line is damaged and was not read")
        found = list(_records(name, log, failures))
        if not found:
            summary.skip(name, log.last_summary, NOTHING_KNOWN)
        summary.files[name] = len(found)
        records += found
    if not records:
        raise UnreadableInputError(
            f"{safe(path)} holds no result of DLLogger's that can be read{summary.because()}; expected lines "
            f'such as DLLL {{"type": "LOG", "step": [], "data": {{...}}}}.'
        )
    summary.records = len(records)
    return records, summary


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def _scan(path: Path) -> tuple[_Log, list[Failure]]:
    """Read a file once; the JSON lines' account if there are any, else the printed ones'."""
    structured, printed = _Log(b"DLLL {"), _Log(b"DLL ")
    failures: list[Failure] = []
    for first, block in blocks(path):
        for number, line, end in hits(block, first, _MARKERS):
            if structured.marker in line:
                _read_json(structured, number, line, end)
            elif printed.marker in line:
                _read_plain(printed, number, line, end)
            elif len(failures) < 100 and (found := failure(line)):
                failures.append(found)
        structured.account(block)
        printed.account(block)
    return structured if structured.entries else printed, failures


def _records(file: str, log: _Log, failures: list[Failure]) -> Iterator[Record]:
    stages, unclear = _stages(log)
    quality = _quality(log)
    if log.last_summary is None:
        yield _record(file, log, _scenario(log), _Stage(), _ended(log, failures, unclear), unclear, [])
        return
    if not stages and (quality or unclear):
        stages = {_scenario(log): _Stage()}
    for index, (scenario, stage) in enumerate(stages.items()):
        reasons = list(unclear)
        if log.following:
            reasons.append(f"{log.following} lines follow the last summary")
        if failures:
            reasons.append(f"there is an error in the log, besides its summary: {failures[0].text}")
        yield _record(file, log, scenario, stage, Status.OK, reasons, quality if index == 0 else [])


def _scenario(log: _Log) -> str:
    """Training or inference, where no result tells: by the arguments, or by the last progress's metrics."""
    if mode := _mode(log):
        return mode
    entry = _decode(log.last) or {}
    data = entry.get("data")
    found = " ".join(data) if isinstance(data, dict) else text(log.last)
    inference = any(_INFERENCE.search(word) for word in found.lower().split())
    training = any(_TRAINING.search(word) or "loss" in word for word in found.lower().split())
    return "inference" if inference and not training else "training"


def _ended(log: _Log, failures: list[Failure], reasons: list[str]) -> Status:
    """How a run without a summary ended."""
    first = next((found for found in failures if found.out_of_memory), None)
    first = first or next(iter(failures), None)
    reasons.append(f"{NO_SUMMARY}, after {log.entries - log.others} lines of progress")
    if first is None:
        return Status.INTERRUPTED
    reasons.append(first.text)
    return Status.OUT_OF_MEMORY if first.out_of_memory else Status.CRASHED


def _record(
    file: str,
    log: _Log,
    scenario: str,
    stage: _Stage,
    status: Status,
    reasons: list[str],
    quality: list[Quality],
) -> Record:
    reasons = [*reasons, *stage.reasons]
    not_measured: dict[str, str] = {}
    if status is Status.OK and stage.throughput is None:
        not_measured["throughput"] = "the summary has no throughput with a unit"
    accelerators = log.count(*_COUNTS)
    conditions: dict[str, Scalar] = {}
    if accelerators is None:
        # A condition, so that what ran on an unknown number is compared with nothing that ran on a known one.
        reasons.append(COUNT_NOT_SAID)
        conditions["accelerators"] = "not said"
    nodes = log.count("nodes", "num_nodes", "nnodes") or 1
    headline = stage.throughput or stage.latency_line
    throughput = Throughput(value=stage.throughput.value, unit=stage.unit) if stage.throughput else None
    return Record(
        id=_identity(file, scenario),
        source=Source.IMPORTED,
        status=status,
        started_at=_started(log),
        duration_s=_duration(log),
        job=Job(
            network=_network(log, file, reasons),
            scenario=scenario,
            framework=_framework(log),
            engine=None,
            precision=_precision(log, reasons),
            batch_size=_batch_size(log, scenario, accelerators, reasons),
            accelerators=accelerators or 1,
            nodes=nodes,
            data=_data(log),
            sequence_length=log.count("max_seq_length", "tgt_len"),
        ),
        reasons=reasons,
        system=System(
            name=BOARD_NOT_NAMED,
            accelerator=Accelerator(name=BOARD_NOT_NAMED, count=accelerators or 1),
        ),
        software=Software(
            cuda=log.said("cuda_version"),
            cudnn=log.said("cudnn_version"),
            nccl=log.said("nccl_version"),
        ),
        metrics=Metrics(
            throughput=throughput,
            latency_ms=stage.latency,
            quality=quality,
            not_measured=not_measured,
        ),
        conditions=conditions,
        origin=Origin(
            file=file,
            line=headline.line if headline else log.last_summary,
            row=headline.row if headline else None,
        ),
    )


def _identity(file: str, scenario: str) -> str:
    identity = f"{SET}/{file}/{scenario}"
    if len(identity) <= 200:
        return identity
    return f"{SET}/{hashlib.sha256(file.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}/{scenario}"
