"""MLPerf training results: time to train from sets of logs (github.com/mlcommons/training_results_v0.7).

A set is a folder of `result_*.txt`, `SUBMITTER/results/SYSTEM/BENCHMARK/`, and becomes one Record. What the
system is stands in `SUBMITTER/systems/SYSTEM.json`, which is looked for upwards from the set, so any folder
from the root to one set may be given.

A set's score is the rules': each run takes from `run_start` to `run_stop`, the fastest and the slowest run
are dropped, and the others' mean counts. One run that failed counts as the slowest; a second makes the set
invalid, as does any other number of runs than the rules ask for. Of the times in the logs only differences
are used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accelmark import names
from accelmark.errors import UnreadableInputError
from accelmark.importers import mllog
from accelmark.importers.lines import text
from accelmark.importers.mllog import Log, count, name_of
from accelmark.importers.summary import Summary, need_folder
from accelmark.job import Job, Scalar
from accelmark.record import Metrics, Origin, Quality, Record, Samples, Source, Status, TrainingRun
from accelmark.system import Accelerator, Cpu, Software, System
from accelmark.text import safe

RULES = "mlperf-training"
#: The version of the rules whose benchmarks are known here.
VERSION = "0.7"


@dataclass(frozen=True)
class Metric:
    """A quality metric: its target as the rules print it, the factor from the logs' fraction to that, and the
    value's name in `eval_accuracy` where that holds several."""

    name: str
    target: float
    factor: int = 1
    key: str = ""


@dataclass(frozen=True)
class Benchmark:
    """What the rules (version 0.7 of June 2020) prescribe: network, data, number of runs, quality."""

    network: str
    data: str | None
    runs: int
    metrics: tuple[Metric, ...]
    task: str | None = None
    #: The global batch from which on the targets are not certain.
    targets_below_batch: float = math.inf


BENCHMARKS = {
    "resnet": Benchmark("resnet50-v1.5", "ImageNet2012", 5, (Metric("top-1 accuracy, %", 75.9, 100),)),
    "ssd": Benchmark("ssd300-resnet34", "COCO 2017", 5, (Metric("mAP, %", 23.0, 100),)),
    "maskrcnn": Benchmark(
        "mask-rcnn-r50-fpn",
        "COCO 2017",
        5,
        (Metric("box AP", 0.377, key="BBOX"), Metric("mask AP", 0.339, key="SEGM")),
    ),
    "gnmt": Benchmark("gnmt-v2", "WMT16 English-German", 10, (Metric("sacreBLEU", 24.0, 100),)),
    "transformer": Benchmark("transformer-big", "WMT17 English-German", 10, (Metric("BLEU", 25.0, 100),)),
    # The checker of the results was changed in August 2020 to accept 0.706 at the largest batches.
    "bert": Benchmark(
        "bert-large",
        "Wikipedia 2020-01-01",
        10,
        (Metric("masked-LM accuracy", 0.712),),
        task="pre-training-mlperf",
        targets_below_batch=8192,
    ),
    "dlrm": Benchmark("dlrm", "Criteo 1TB Click Logs", 5, (Metric("AUC", 0.8025),)),
    "minigo": Benchmark("minigo", None, 10, (Metric("win rate against checkpoint, %", 50.0, 100),)),
}

#: What a system's name says of the server, before its first underscore.
_SERVERS = {"dgxa100": "DGX A100", "dgx1": "DGX-1", "dgx2": "DGX-2"}
_VERSION = re.compile(r"training(?:_results)?_v([0-9]{1,3}\.[0-9]{1,3})(?![0-9.])")
_RESULT = re.compile(r"result_.*\.txt", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,6}")
#: Ranks may log the same event at slightly different times; beyond this share of the run it is not the same.
_SAME = 0.01
#: How far up from a set its submitter's folder may be: SUBMITTER/results/SYSTEM/BENCHMARK.
_LEVELS = 4
_MAX_SYSTEM_FILE = 1 << 20

NO_EVENT = "no file has a :::MLLOG line"
NO_SYSTEM = "no systems/SYSTEM.json beside results/ describes the system, so its accelerators are not known"
NO_COUNT = "the system's description gives no number of nodes and accelerators"
MIXED = "the logs are of several benchmarks"
REPEATED = "the run is that of another file"
DAMAGED = "an :::MLLOG line cannot be read"
NO_VERSION = (
    f"no folder names the rules' version (as training_v{VERSION} does); "
    f"network, data, targets and number of runs are those of {VERSION}"
)
CUT = "the log ends before run_stop"
OPEN = "open division: network and data may be others than the benchmark's"


def read(directory: Path) -> tuple[list[Record], Summary]:
    """Read all sets in a folder: Records in order of path, minutes of training, and the account of it.

    Raises `UnreadableInputError` if there is no such folder or nothing in it is a set.
    """
    summary = Summary()
    need_folder(directory, "give the folder that holds SUBMITTER/results, or a folder in it.")
    records: list[Record] = []
    recognised = False
    for folder, files in _sets(directory, summary):
        place = _shown(folder.relative_to(directory) if folder != directory else directory.resolve().name)
        logs = [mllog.read(file, _shown(file.relative_to(directory))) for file in files]
        if not any(log.recognised for log in logs):
            summary.skip(place, None, NO_EVENT)
            continue
        recognised = True
        for log in logs:
            if log.damaged:
                summary.note(log.file, log.damaged_line, DAMAGED, f"{log.damaged} in the file")
        record = _record(folder.resolve(), place, logs, summary)
        if record is None:
            continue
        if any(record.id == other.id for other in records):
            record = record.replace(id=_identity([record.id], _digest(place)))
        summary.files[place] = 1
        records.append(record)
    if not recognised:
        raise UnreadableInputError(
            f"{safe(directory)} holds no results of MLPerf training; expected folders with result_*.txt "
            f"whose lines hold :::MLLOG."
        )
    summary.records = len(records)
    return records, summary


def _sets(directory: Path, summary: Summary) -> Iterator[tuple[Path, list[Path]]]:
    """Each folder that holds result files, and these in the order of their numbers."""

    def unreadable(error: OSError) -> None:
        place = Path(error.filename).relative_to(directory)
        summary.skip(_shown(place), None, f"the folder cannot be read: {error.strerror}")

    for name, folders, files in os.walk(directory, onerror=unreadable):
        folders.sort()
        found = sorted((Path(name, file) for file in files if _RESULT.fullmatch(file)), key=_number)
        if found:
            yield Path(name), found


def _number(file: Path) -> tuple[int, str]:
    match = _COUNT.fullmatch(file.name.removeprefix("result_").removesuffix(".txt"))
    return (int(match[0]) if match else 10**6), file.name


@dataclass(frozen=True)
class _Run:
    """One run of a set: its milliseconds if it is `whole`, else why it has none."""

    log: Log
    kind: Literal["whole", "failed", "cut", "not certain"]
    ms: float | None = None
    reason: str | None = None

    def sample(self) -> TrainingRun:
        minutes = None if self.ms is None else self.ms / 60_000
        return TrainingRun(minutes=minutes, reason=self.reason, file=self.log.file)


def _run(log: Log, metrics: Sequence[Metric]) -> _Run:
    """A log as a run. Where a log is cut off nothing says that its run failed, or that it did not."""
    if log.error:
        return _Run(log, "not certain", reason=log.error)
    if log.failure:
        return _Run(log, "failed", reason=log.failure)
    if missing := _missing(log):
        return _Run(log, "cut", reason=missing)
    # The clock may be stopped as soon as any part of the system knows that the target is reached.
    ms = log.stop.first - log.start.first
    if doubt := _doubt(log, ms, metrics):
        return _Run(log, "not certain", reason=doubt)
    return _Run(log, "whole", ms)


def _missing(log: Log) -> str | None:
    if log.stop.count:
        return None if log.start.count else "the log begins after run_start"
    return CUT if log.start.count else "the log ends before run_start"


def _doubt(log: Log, ms: float, metrics: Sequence[Metric]) -> str | None:
    """What speaks against the time of a run, or against its having succeeded."""
    start, stop = log.start, log.stop
    if math.inf in (start.first, stop.first):
        return "run_start or run_stop has no time"
    if start.last >= stop.first:
        return "run_stop is not after run_start, or the log holds several runs"
    if max(start.last - start.first, stop.last - stop.first) > _SAME * ms:
        return "run_start or run_stop is logged again at quite another time"
    for metric in metrics:
        seen = log.evaluations.get(metric.key)
        if seen and _value(seen.best, metric) < metric.target:
            return f"run_stop says success, but no evaluation reached {_target(metric)}"
    return None


def _runs(logs: Sequence[Log], metrics: Sequence[Metric], summary: Summary) -> list[_Run]:
    """The runs of a set; a copy of a file is no second run."""
    runs = []
    seen: dict[tuple[float, float], str] = {}
    for log in logs:
        times = (log.start.first, log.stop.first)
        if times in seen:
            summary.skip(log.file, log.stop_line, REPEATED, seen[times])
            continue
        if math.inf not in times:
            seen[times] = _file_name(log)
        runs.append(_run(log, metrics))
    return runs


def _score(runs: Sequence[_Run], required: int | None) -> tuple[float | None, Status, list[str]]:
    """Minutes by the rules, or `None`; the status, and what is to say of it."""
    reasons = [f"{_file_name(run.log)}: {run.reason}" for run in runs if run.kind != "whole"]
    kinds = [run.kind for run in runs]
    failed = kinds.count("failed")
    status = Status.INVALID if "not certain" in kinds else Status.OK
    if failed > 1:
        status = Status.INVALID
        reasons.append(f"{failed} of {len(runs)} runs failed; the rules allow one")
    if required is None:
        status = Status.INVALID
        reasons.append("not scored: how many runs the rules ask for is not known")
    elif len(runs) != required:
        status = Status.INVALID
        reasons.append(f"has {len(runs)} of {required} runs")
    if "cut" in kinds:
        status = Status.INTERRUPTED
    if status is not Status.OK:
        return None, status, reasons
    if failed:
        reasons.append(f"1 of {len(runs)} runs failed and counts as the slowest")
    times = sorted(run.ms for run in runs if run.ms is not None)
    counted = times[1:] if failed else times[1:-1]
    return math.fsum(counted) / len(counted) / 60_000, status, reasons


def _record(folder: Path, place: str, logs: Sequence[Log], summary: Summary) -> Record | None:
    """The Record of a set, or `None` where its benchmark or its accelerators are not known."""
    said = {log.said["submission_benchmark"] for log in logs if "submission_benchmark" in log.said}
    if len(said) > 1 or None in said:
        summary.skip(place, None, MIXED)
        return None
    described = _read_system(folder, place, summary)
    if described is None:
        return None
    folder_name = name_of(_shown(folder.name)) or "unknown"
    name = said.pop() if said else folder_name
    version = next((m[1] for part in reversed(folder.parts) if (m := _VERSION.match(part))), None)
    rules = f"{RULES}-{version}" if version else RULES
    benchmark = BENCHMARKS.get(name) if version in (VERSION, None) else None
    division = _agreed("submission_division", logs) or name_of(described.description.get("division"))
    org = _agreed("submission_org", logs) or name_of(described.description.get("submitter"))
    platform = _agreed("submission_platform", logs)
    total = _agreed("global_batch_size", logs)
    batch, no_batch = _batch_size(total, described.accelerators)
    metrics = _metrics(benchmark, total)
    runs = _runs(logs, metrics, summary)
    minutes, status, why = _score(runs, benchmark.runs if benchmark else None)
    reasons = [
        *why,
        *([NO_VERSION] if benchmark and not version else []),
        *([] if benchmark else [f"what benchmark {name} of the rules {rules} trains is not known here"]),
        *([OPEN] if division == "open" else []),
        *([no_batch] if no_batch else []),
    ]
    parameters: dict[str, Scalar] = {"rules": rules}
    if benchmark and benchmark.task:
        parameters["task"] = benchmark.task
    shown = next((run.log for run in runs if run.kind == "whole"), logs[0])
    return Record(
        id=_identity([rules, *([org] if org else []), described.name, folder_name]),
        source=Source.IMPORTED,
        status=status,
        reasons=reasons,
        job=Job(
            network=benchmark.network if benchmark else name,
            scenario="time-to-quality",
            parameters=parameters,
            framework=_framework(described.description.get("framework")),
            engine=None,
            precision=None,  # the logs do not say
            batch_size=batch,
            accelerators=described.accelerators,
            nodes=described.nodes,
            data=benchmark.data if benchmark else None,
        ),
        system=described.system(),
        software=described.software(),
        metrics=Metrics(time_to_train_min=minutes, quality=[_quality(metric, runs) for metric in metrics]),
        samples=Samples(runs=[run.sample() for run in runs]),
        conditions={"division": division} if division else {},
        origin=Origin(
            file=shown.file,
            section=", ".join(part for part in (org, platform) if part) or None,
            line=shown.stop_line,
            row=shown.stop_row,
        ),
    )


def _file_name(log: Log) -> str:
    return log.file.rpartition("/")[2]


def _quality(metric: Metric, runs: Sequence[_Run]) -> Quality:
    """The lowest of the whole runs' last evaluations: each of them reached at least that."""
    whole = [run.log.evaluations.get(metric.key) for run in runs if run.kind == "whole"]
    seen = [evaluation for evaluation in whole if evaluation]
    if not seen or len(seen) < len(whole):
        return Quality(metric=metric.name, target=metric.target)
    value = min(_value(evaluation.last, metric) for evaluation in seen)
    return Quality(metric=metric.name, value=value, target=metric.target, reached=value >= metric.target)


def _value(fraction: float, metric: Metric) -> float:
    # 0.2423 x 100 is 24.230000000000002 without rounding.
    return round(fraction * metric.factor, 10)


def _target(metric: Metric) -> str:
    name, percent, _ = metric.name.partition(", %")
    return f"{name} {metric.target}{' %' if percent else ''}"


def _metrics(benchmark: Benchmark | None, batch: int | None) -> tuple[Metric, ...]:
    """The quality metrics whose targets are certain at a global batch."""
    if benchmark is None:
        return ()
    if benchmark.targets_below_batch < math.inf and (batch is None or batch >= benchmark.targets_below_batch):
        return ()
    return benchmark.metrics


def _agreed(key: str, logs: Sequence[Log]) -> Any:
    """What all logs that say it agree on, or `None`."""
    values = {log.said[key] for log in logs if key in log.said}
    return values.pop() if len(values) == 1 else None


def _batch_size(total: int | None, accelerators: int) -> tuple[int | None, str | None]:
    """The batch size on each accelerator, or `None` and why it is not known."""
    if total is None:
        return None, "batch size not known: the logs give no single global_batch_size"
    if total % accelerators:
        return None, f"batch size {total} does not divide by {accelerators} accelerators"
    return total // accelerators, None


@dataclass(frozen=True)
class _Described:
    """A system as its submitter describes it."""

    name: str
    nodes: int
    accelerators: int
    description: Mapping[str, object]

    def system(self) -> System:
        printed = name_of(self.description.get("accelerator_model_name"))
        cpu = name_of(self.description.get("host_processor_model_name"))
        server = _SERVERS.get(self.name.split("_")[0].casefold())
        return System(
            name=self.name,
            accelerator=Accelerator(
                name=names.board(printed) if printed else "unknown",
                kind="cuda" if printed and "nvidia" in printed.casefold() else "unknown",
                count=self.accelerators,
                driver=self._version("cuda_driver"),
            ),
            cpu=Cpu(name=cpu, sockets=count(self.description.get("host_processors_per_node")))
            if cpu
            else None,
            os=name_of(self.description.get("operating_system")),
            server=names.server(server) if server else None,
        )

    def software(self) -> Software:
        return Software(
            framework=name_of(self.description.get("framework")),
            cuda=self._version("cuda"),
            cudnn=self._version("cudnn"),
            nccl=self._version("nccl"),
        )

    def _version(self, library: str) -> str | None:
        stack = self.description.get("other_software_stack")
        return name_of(stack.get(f"{library}_version")) if isinstance(stack, dict) else None


def _read_system(folder: Path, place: str, summary: Summary) -> _Described | None:
    """The description of a set's system, or `None`, which is named."""
    name = folder.parent.name
    candidates = [parent / "systems" / f"{name}.json" for parent in list(folder.parents)[:_LEVELS]]
    path = next((candidate for candidate in candidates if os.path.isfile(candidate)), None)
    if path is None:
        summary.skip(place, None, NO_SYSTEM, _shown(name))
        return None
    try:
        with path.open("rb") as file:
            description = json.loads(text(file.read(_MAX_SYSTEM_FILE)))
    except OSError as error:
        summary.skip(
            place, None, f"the system's description cannot be read: {error.strerror}", _shown(path.name)
        )
        return None
    except (ValueError, RecursionError):
        summary.skip(place, None, "the system's description is no JSON", _shown(path.name))
        return None
    if not isinstance(description, dict):
        summary.skip(place, None, "the system's description is no JSON object", _shown(path.name))
        return None
    nodes = count(description.get("number_of_nodes"))
    each = count(description.get("accelerators_per_node"))
    if nodes is None or each is None:
        summary.skip(place, None, NO_COUNT, _shown(path.name))
        return None
    called = name_of(description.get("system_name")) or name_of(_shown(name)) or "unknown"
    return _Described(called, nodes, nodes * each, description)


def _framework(printed: object) -> str | None:
    """The framework that the description begins with: `mxnet` for `MXNet NVIDIA Release 20.06`."""
    words = (name_of(printed) or "").split()[:4]
    known = names.read("spellings")["frameworks"]
    spelled = (names.framework(" ".join(words[:count])) for count in range(len(words), 0, -1))
    return next((name for name in spelled if name in known), None)


def _identity(parts: Sequence[str], digest: str | None = None) -> str:
    """An id of 200 characters at most; one that is too long or not unique ends in a digest."""
    joined = "/".join(parts)
    digest = digest or (_digest(joined) if len(joined) > 200 else None)
    return f"{joined[:187]}-{digest}" if digest else joined


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:12]


def _shown(path: Path | str) -> str:
    """A path as text; a name that is no UTF-8 shows U+FFFD."""
    return os.fsencode(os.fspath(path)).decode("utf-8", errors="replace")
