"""MLPerf inference results, as the submissions are published (github.com/mlcommons/inference_results_v1.0).

    DIVISION/SUBMITTER/systems/SYSTEM.json
    DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/accuracy/accuracy.txt
    DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_N/mlperf_log_summary.txt
                                                                           mlperf_log_detail.txt, spl.txt

A performance run becomes a Record: throughput, latencies and verdict as LoadGen states them, the accuracy
run's quality, the system as its submitter describes it, and, of a run with a power log, the mean power of the
whole system over the measured period and the throughput per watt. That period stands in the detail file only.
The average over the whole log is lower, by 2 to 6 % where both are known, and by 20 and 32 % for DLRM, whose
data takes long to load; so without the detail file there is no power.

Ranging runs (which set a power meter up), compliance runs and accuracy runs are no results.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelmark import names
from accelmark.errors import UnreadableInputError
from accelmark.importers import loadgen, spl
from accelmark.importers.lines import lines
from accelmark.importers.summary import Summary, need_folder
from accelmark.job import Job, Scalar
from accelmark.record import Metrics, Origin, Quality, Quantity, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Cpu, Software, System
from accelmark.text import safe

SET = "mlperf-inference"
SUMMARY_FILE = "mlperf_log_summary.txt"
DETAIL_FILE = "mlperf_log_detail.txt"
POWER_FILE = "spl.txt"
ACCURACY_FILE = "accuracy.txt"
DIVISIONS = ("closed", "open", "network")

#: A sample of DLRM is 270 user-item pairs on average, and one sample all the same.
UNITS = {"offline": "samples/s", "server": "queries/s"}
#: Bytes; a description has about 2,000.
MAX_DESCRIPTION = 1 << 20

#: LoadGen's modes that give no result.
OTHER_MODES = ("AccuracyOnly", "SubmissionRun", "FindPeakPerformance")

#: What a folder with a summary is if it is no result.
RANGING = "a ranging run, which sets the power meter up and is no result"
COMPLIANCE = "a compliance run, which is no result"
ELSEWHERE = (
    "not in results/SYSTEM/BENCHMARK/SCENARIO/performance/run_N, so nothing says of what it is a result"
)
NO_SUMMARY = f"the run has no {SUMMARY_FILE}"
NO_SYSTEM = "the system is not described (systems/SYSTEM.json), so its accelerators are not known"

UNKNOWN_BENCHMARK = "the benchmark is not one that is known; its network keeps the benchmark's name"
CUT_OFF = "the summary is cut off: it does not reach its last line"
NO_VERDICT = "the summary has no verdict (Result is : VALID or INVALID)"


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark of the rules is: the network, its data, how `accuracy.txt` words its quality.

    `targets`: it is run with 99 and 99.9 % of the reference's quality as the target, as its name says.
    `divisor` is 100 where the file states in percent what the field states as a fraction.
    """

    network: str
    data: str
    metric: str
    wording: re.Pattern[bytes]
    targets: bool = False
    divisor: float = 1.0
    task: str | None = None
    sequence_length: int | None = None
    #: The first round in which the name means another network.
    until: float | None = None


_NUMBER = rb"([0-9]{1,9}(?:\.[0-9]{1,18})?)"
# What follows the figure belongs to each pattern: a figure that is cut off must not match.
_TOP_1 = re.compile(rb"accuracy=" + _NUMBER + rb"%, good=")
_MAP = re.compile(rb"mAP=" + _NUMBER + rb"%")
_DICE = re.compile(rb"Accuracy: mean = " + _NUMBER + rb",")
_WER = re.compile(rb"Word Error Rate: " + _NUMBER + rb"%")
_F1 = re.compile(rb'\{"exact_match": [0-9.]{1,20}, "f1": ' + _NUMBER + rb"\}")
_AUC = re.compile(rb"AUC=" + _NUMBER + rb"%")

_RESNET50 = Benchmark("resnet50-v1.5", "ImageNet2012", "top-1 accuracy, %", _TOP_1)
# The page that publishes these figures states mAP as a fraction.
_SSD_LARGE = Benchmark("ssd-resnet34-1200", "COCO 2017", "mAP", _MAP, divisor=100)
_SSD_SMALL = Benchmark("ssd-mobilenet", "COCO 2017", "mAP", _MAP, divisor=100)
BENCHMARKS = {
    "resnet50": _RESNET50,
    "resnet": _RESNET50,
    "mobilenet": Benchmark("mobilenet", "ImageNet2012", "top-1 accuracy, %", _TOP_1),
    "ssd-resnet34": _SSD_LARGE,
    "ssd-large": _SSD_LARGE,
    "ssd-mobilenet": _SSD_SMALL,
    "ssd-small": _SSD_SMALL,
    # From v2.0 on it is a network for kidney tumours (KiTS 2019).
    "3d-unet": Benchmark("unet-3d", "BraTS 2019", "mean DICE", _DICE, targets=True, until=2.0),
    "bert": Benchmark(
        "bert-large",
        "SQuAD v1.1",
        "F1, %",
        _F1,
        targets=True,
        task="question-answering",
        sequence_length=384,
    ),
    "dlrm": Benchmark("dlrm", "Criteo 1TB Click Logs", "AUC, %", _AUC, targets=True),
    "rnnt": Benchmark("rnnt", "LibriSpeech", "WER, %", _WER),
}

_RUN = re.compile(r"run_[0-9]{1,4}")
_TEST = re.compile(r"TEST[0-9]{2}")
_ROUND = re.compile(r"inference(?:_results)?_v([0-9]{1,2}\.[0-9]{1,2})")
_TARGET = re.compile(r"(.+)-(99(?:\.9)?)")
_PROFILE = re.compile(r"(?<![0-9a-z])([1-9][0-9]{0,2})x([1-9]g\.[0-9]{1,3}gb)(?![0-9a-z])", re.IGNORECASE)
_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_GIB = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?GiB")


def read(path: Path) -> tuple[list[Record], Summary]:
    """Read every result at or below a folder of a results tree, in order of their paths.

    The system's description and the accuracy file are looked for where the tree has them, also when they are
    outside the folder that is given. Raises `UnreadableInputError` if there is no result to read.
    """
    need_folder(path, "give a folder of MLPerf inference results, DIVISION/SUBMITTER/results/...")
    summary = Summary()
    root = path.resolve()
    systems = _Systems()
    by_id: dict[str, Record] = {}
    for folder, has_summary in _runs(root, summary):
        where = _shown(folder / SUMMARY_FILE, root)
        run = _Run.at(folder)
        if run is None:
            summary.skip(where, None, _not_a_result(folder))
        elif not has_summary:
            summary.skip(where, None, NO_SUMMARY)
        else:
            record = _record(run, root, systems, summary)
            if isinstance(record, _Refused):
                summary.skip(where, None, record.why, record.where)
                continue
            if record.id in by_id:
                # Two copies of a result in one tree: both count, and their names differ by where they are.
                record = record.replace(id=_identity(f"{record.id}-{_digest(str(folder.relative_to(root)))}"))
            by_id[record.id] = record
            summary.files[where] = 1
    if not by_id:
        raise UnreadableInputError(
            f"{safe(path)} holds no MLPerf inference result that can be read{summary.because()}; expected "
            f"results/SYSTEM/BENCHMARK/SCENARIO/performance/run_1/{SUMMARY_FILE}."
        )
    summary.records = len(by_id)
    return list(by_id.values()), summary


def _runs(root: Path, summary: Summary) -> Iterator[tuple[Path, bool]]:
    """Every folder that holds a summary, or should, and whether it does; accuracy runs are left out."""

    def unreadable(error: OSError) -> None:
        summary.skip(_shown(Path(error.filename), root), None, f"the folder cannot be read: {error.strerror}")

    for name, folders, files in os.walk(root, onerror=unreadable):
        folders.sort()
        folder = Path(name)
        if "accuracy" in folder.parts[-2:]:
            continue
        has_summary = SUMMARY_FILE in files and os.path.isfile(folder / SUMMARY_FILE)
        if has_summary or _Run.at(folder):
            yield folder, has_summary


@dataclass(frozen=True)
class _Run:
    """The folder of a performance run, and what its path says."""

    folder: Path
    submission: Path
    system: str
    benchmark: str
    scenario: str
    name: str
    division: str | None
    submitter: str
    round: str | None

    @classmethod
    def at(cls, folder: Path) -> _Run | None:
        """The run that a folder holds by its place in the tree, or `None` if it is another folder."""
        parts = folder.parts
        if len(parts) < 8 or parts[-6] != "results" or parts[-2] != "performance":
            return None
        if not _RUN.fullmatch(parts[-1]) or any(_TEST.fullmatch(part) for part in parts[-5:]):
            return None
        rounds = [match[1] for part in reversed(parts[:-7]) if (match := _ROUND.fullmatch(part))]
        return cls(
            folder=folder,
            submission=folder.parents[5],
            system=parts[-5],
            benchmark=parts[-4],
            scenario=parts[-3],
            name=parts[-1],
            division=parts[-8] if parts[-8] in DIVISIONS else None,
            submitter=parts[-7],
            round=rounds[0] if rounds else None,
        )

    @property
    def rules(self) -> str:
        """The rule book, with its version where the path says it."""
        return f"{SET}-{self.round}" if self.round else SET

    @property
    def id(self) -> str:
        """The result's name: the same from whatever level of the tree it was read."""
        parts = (
            self.rules,
            self.division,
            self.submitter,
            self.system,
            self.benchmark,
            self.scenario,
            self.name,
        )
        return _identity("/".join(part for part in parts if part))


@dataclass(frozen=True)
class _Refused:
    """Why a run gave no Record."""

    why: str
    where: str = ""


def _not_a_result(folder: Path) -> str:
    if "ranging" in folder.parts[-2:]:
        return RANGING
    if any(part == "compliance" or _TEST.fullmatch(part) for part in folder.parts[-8:]):
        return COMPLIANCE
    return ELSEWHERE


def _shown(path: Path, root: Path) -> str:
    """A path for people: below the folder that was given, or else below the submitter's."""
    if path.is_relative_to(root):
        return safe(path.relative_to(root))
    return safe(Path(*path.parts[-2:]))


def _identity(name: str) -> str:
    plain = safe(name)
    return plain if len(plain) <= 200 and not plain.endswith("…") else f"{plain[:180]}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _record(run: _Run, root: Path, systems: _Systems, summary: Summary) -> Record | _Refused:
    """The Record of a run, or why there is none."""
    result = _result(run)
    if isinstance(result, _Refused):
        return result
    # A summary that is cut off may not reach its scenario; the folder's name has it too.
    scenario = result.scenario or loadgen.scenario(run.scenario)
    if scenario is None:
        return _Refused("the scenario is not known", safe(run.scenario))
    described = systems.of(run)
    if isinstance(described, str):
        return _Refused(described, safe(run.system))
    benchmark = _benchmark(run)
    if benchmark is None:
        if len(safe(run.benchmark)) > 200:
            return _Refused("the benchmark's folder has no name of sane length")
        summary.note(_shown(run.folder, root), None, UNKNOWN_BENCHMARK, safe(run.benchmark))
    measured = _measured(run, result, scenario, benchmark)
    reasons = list(measured.reasons)
    if scenario != loadgen.scenario(run.scenario):
        reasons.append(f"the folder of the scenario is called {safe(run.scenario)}")
    division = described.conditions.get("division")
    if run.division and division not in (None, run.division):
        reasons.append(f"the system's description says {division} division, the folder {run.division}")
    headline = None if measured.status is Status.INTERRUPTED else result.headline
    return Record(
        id=run.id,
        source=Source.IMPORTED,
        status=measured.status,
        reasons=reasons,
        job=Job(
            network=benchmark.network if benchmark else safe(run.benchmark),
            scenario=scenario,
            parameters=_parameters(run, result, scenario, benchmark, described),
            framework=None,
            engine=described.engine,
            precision=None,  # the logs do not say, and a submission may mix several
            accelerators=described.system.accelerator.count,
            nodes=described.nodes,
            partition=described.system.accelerator.partition,
            data=names.dataset(benchmark.data) if benchmark else None,
            sequence_length=benchmark.sequence_length if benchmark else None,
        ),
        system=described.system,
        software=described.software.model_copy(update={"libraries": measured.libraries}),
        metrics=measured.metrics,
        conditions={
            **described.conditions,
            **({"division": run.division} if run.division else {}),
            "power_run": measured.power_run,
        },
        origin=Origin(
            file=_shown(run.folder / SUMMARY_FILE, root),
            section=described.title,
            line=headline.line if headline else None,
            row=headline.row if headline else None,
        ),
    )


def _result(run: _Run) -> loadgen.LoadgenSummary | _Refused:
    """What LoadGen says of a run, cut off or not, or why it gives no Record."""
    try:
        result = loadgen.read_summary(run.folder / SUMMARY_FILE)
    except OSError as error:
        return _Refused(f"the file cannot be read: {error.strerror}")
    if result is None:
        return _Refused("the file is no summary of LoadGen's")
    if result.mode in OTHER_MODES or (result.whole and result.mode != "PerformanceOnly"):
        return _Refused("LoadGen's mode was not PerformanceOnly", safe(result.mode or "no mode"))
    return _contradiction(result) or result


def _contradiction(result: loadgen.LoadgenSummary) -> _Refused | None:
    """Why a summary that is not cut off cannot be used all the same."""
    if result.twice:
        return _Refused("the summary says something twice, and not the same", safe(", ".join(result.twice)))
    if not result.whole or result.valid is None:
        return None
    if result.scenario is None:
        return _Refused("the summary names no scenario that is known")
    if result.headline is None:
        return _Refused(f"no figure: {result.no_headline}")
    return None


@dataclass
class _Measured:
    """What the files of one run add up to."""

    status: Status
    metrics: Metrics
    reasons: list[str]
    libraries: dict[str, str]
    power_run: bool


def _measured(
    run: _Run, result: loadgen.LoadgenSummary, scenario: str, benchmark: Benchmark | None
) -> _Measured:
    power_run = os.path.isfile(run.folder / POWER_FILE)
    headline = result.headline
    if not result.whole or result.valid is None or headline is None:
        why = NO_VERDICT if result.whole else CUT_OFF
        return _Measured(Status.INTERRUPTED, Metrics(), [why], {}, power_run)
    reasons = [*result.unmet, *result.doubts]
    if not result.valid and not result.unmet:
        reasons.insert(0, "LoadGen calls the result INVALID and gives no reason")
    not_measured: dict[str, str] = {}
    detail = _detail(run, reasons)
    throughput = None
    if scenario in ("offline", "server"):
        throughput = Throughput(value=headline.value, unit=UNITS[scenario])
    quality = _quality(run, benchmark)
    if isinstance(quality, str):
        not_measured["quality"] = quality
    power_w = _power(run, detail, reasons, not_measured) if power_run else None
    metrics = Metrics(
        throughput=throughput,
        latency_ms=result.latency_ms,
        quality=[quality] if isinstance(quality, Quality) else [],
        power_w=power_w,
        # MLPerf's power rules: the whole system at its supply.
        power_basis="system" if power_w else None,
        efficiency=Quantity(value=throughput.value / power_w, unit=f"{throughput.unit}/W")
        if throughput and power_w
        else None,
        not_measured=not_measured,
    )
    libraries = {"loadgen": safe(detail.version)} if detail.version else {}
    return _Measured(Status.OK if result.valid else Status.INVALID, metrics, reasons, libraries, power_run)


def _detail(run: _Run, reasons: list[str]) -> loadgen.LoadgenDetail:
    path = run.folder / DETAIL_FILE
    if not os.path.isfile(path):
        return loadgen.LoadgenDetail()
    try:
        detail = loadgen.read_detail(path)
    except OSError as error:
        reasons.append(f"{DETAIL_FILE} cannot be read: {error.strerror}")
        return loadgen.LoadgenDetail()
    reasons += [f"{DETAIL_FILE}: {doubt}" for doubt in detail.doubts]
    return detail


def _power(
    run: _Run, detail: loadgen.LoadgenDetail, reasons: list[str], not_measured: dict[str, str]
) -> float | None:
    """Mean watts over the measured period, or `None` and, in `not_measured`, why."""
    try:
        log = spl.read(run.folder / POWER_FILE, detail.period)
    except OSError as error:
        not_measured["power_w"] = f"{POWER_FILE} cannot be read: {error.strerror}"
        return None
    reasons += log.doubts
    if log.why:
        mean = (
            f"; the mean of the whole log, idle time included, is {log.whole_w:.1f} W" if log.whole_w else ""
        )
        not_measured["power_w"] = log.why + mean
    return log.mean_w


def _quality(run: _Run, benchmark: Benchmark | None) -> Quality | str:
    """What the accuracy run reached, or why that is not known."""
    path = run.folder.parents[1] / "accuracy" / ACCURACY_FILE
    if benchmark is None:
        return "the benchmark is not known, nor therefore how its quality is worded"
    if not os.path.isfile(path):
        return f"no {ACCURACY_FILE}"
    try:
        found = {match[1] for _, line in lines(path) if (match := benchmark.wording.match(line))}
    except OSError as error:
        return f"{ACCURACY_FILE} cannot be read: {error.strerror}"
    if len(found) != 1:
        return f"{ACCURACY_FILE} states {'more than one' if found else 'no'} figure of it"
    return Quality(metric=benchmark.metric, value=float(found.pop()) / benchmark.divisor)


def _benchmark(run: _Run) -> Benchmark | None:
    """What a benchmark's folder means, or `None` if that is not known for certain."""
    base, target = _base(run)
    benchmark = BENCHMARKS.get(base)
    if benchmark is None or (target and not benchmark.targets):
        return None
    if benchmark.until and not (run.round and float(run.round) < benchmark.until):
        return None
    return benchmark


def _base(run: _Run) -> tuple[str, str | None]:
    match = _TARGET.fullmatch(run.benchmark)
    return (match[1], match[2]) if match else (run.benchmark, None)


def _parameters(
    run: _Run,
    result: loadgen.LoadgenSummary,
    scenario: str,
    benchmark: Benchmark | None,
    described: _Described,
) -> dict[str, Scalar]:
    parameters: dict[str, Scalar] = {"rules": run.rules}
    target = _base(run)[1]
    if benchmark and target:
        parameters["accuracy_target"] = _whole(float(target))
    if benchmark and benchmark.task:
        parameters["task"] = benchmark.task
    if described.instances > 1:
        parameters["instances"] = described.instances
    if not result.whole:
        # Its last number may be cut short.
        return parameters
    if scenario == "server" and result.target_latency_ns:
        parameters["latency_bound_ms"] = _whole(result.target_latency_ns / 1e6)
    if scenario == "multi-stream" and result.headline:
        parameters["multi_stream"] = "latency" if result.headline.is_latency else "samples per query"
        if not result.headline.is_latency:
            # The result itself: so many streams were served in time.
            parameters["streams"] = int(result.headline.value)
    return parameters


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else value


@dataclass(frozen=True)
class _Described:
    """A system as its submitter describes it. `instances`: of a partitioned accelerator."""

    title: str | None
    system: System
    software: Software
    engine: str | None
    nodes: int
    instances: int
    conditions: dict[str, Scalar]


class _Systems:
    """The descriptions of systems, each read once. `None` in a description is what the file does not say."""

    def __init__(self) -> None:
        self._read: dict[Path, _Described | str] = {}

    def of(self, run: _Run) -> _Described | str:
        """The system that a run is of, or why it is not known."""
        path = run.submission / "systems" / f"{run.system}.json"
        if path not in self._read:
            self._read[path] = _described(path, run.system)
        return self._read[path]


def _described(path: Path, folder: str) -> _Described | str:
    if not os.path.isfile(path):
        return NO_SYSTEM
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(MAX_DESCRIPTION))
    except OSError as error:
        return f"the system's description cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return "the system's description is no JSON"
    if not isinstance(fields, dict):
        return "the system's description is no JSON object"
    model = _words(fields, "accelerator_model_name") or ""
    board = names.board(model)
    per_node, nodes = _count(fields, "accelerators_per_node"), _count(fields, "number_of_nodes")
    if not board or len(board) > 200 or per_node is None or nodes is None:
        return "the system's description does not say which and how many accelerators it has"
    title = _words(fields, "system_name")
    profile = _profile(model, title, safe(folder))
    instances, partition = profile or (0, None)
    framework = _words(fields, "framework")
    stack = f"{framework or ''}, {_words(fields, 'other_software_stack') or ''}"
    tensorrt = framework is not None and "TensorRT" in framework
    cpu = _words(fields, "host_processor_model_name")
    return _Described(
        title=title,
        system=System(
            name=board,
            accelerator=Accelerator(
                name=board,
                kind="cuda" if re.search("NVIDIA|TensorRT|CUDA", f"{model}, {stack}") else "unknown",
                # One instance is on one accelerator, however many the machine has.
                count=1 if instances == 1 else per_node * nodes,
                memory_gib=_gib(fields, "accelerator_memory_capacity"),
                driver=_version("Driver", stack),
                partition=partition,
            ),
            cpu=Cpu(name=cpu, sockets=_count(fields, "host_processors_per_node")) if cpu else None,
            memory_gib=_gib(fields, "host_memory_capacity"),
            os=_words(fields, "operating_system"),
            server=names.server(title.partition("(")[0].strip()) if title else None,
        ),
        software=Software(
            engine=framework if tensorrt else None,
            framework=None if tensorrt else framework,
            cuda=_version("CUDA", stack),
            cudnn=_version("cuDNN", stack),
        ),
        engine="tensorrt" if tensorrt else None,
        nodes=nodes,
        instances=instances,
        conditions=_conditions(fields, f"{title} {folder}"),
    )


def _conditions(fields: dict[str, Any], title: str) -> dict[str, Scalar]:
    conditions: dict[str, Scalar] = {}
    if fields.get("division") in DIVISIONS:
        conditions["division"] = fields["division"]
    if fields.get("status") in ("preview", "available"):
        conditions["preview"] = fields["status"] == "preview"
    if "HeteroMultiUse" in title:
        # One instance was measured while the accelerator's others ran other networks.
        conditions["other_instances"] = "busy"
    return conditions


def _words(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return safe(value.strip()) if isinstance(value, str) and value.strip() else None


def _count(fields: dict[str, Any], name: str) -> int | None:
    """A count, which some submitters write as text."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return int(value) if _COUNT.fullmatch(str(value)) else None


def _gib(fields: dict[str, Any], name: str) -> float | None:
    # "80 GB" may be either kind of gigabyte.
    match = _GIB.fullmatch(_words(fields, name) or "")
    return float(match[1]) if match else None


def _version(of: str, stack: str) -> str | None:
    match = re.search(rf"\b{of} ([0-9]{{1,4}}(?:\.[0-9]{{1,4}}){{1,3}})", stack)
    return match[1] if match else None


def _profile(*descriptions: str | None) -> tuple[int, str] | None:
    """How many instances of which part of an accelerator: (1, "1g.10gb") for `1x1g.10gb MIG`."""
    for description in descriptions:
        if match := _PROFILE.search(description or ""):
            return int(match[1]), match[2].lower()
    return None
