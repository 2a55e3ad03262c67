"""Lambda's raw logs of PyTorch training (github.com/lambdal/deeplearning-benchmark, its folder `results`).

A folder per system (`8x3090`), in it one per task and precision (`PyTorch_SSD_AMP`), in it a log per run,
named by the machine's clock, and beside it what a script read from the driver meanwhile. A log becomes a
Record; its figure is the one that the program itself prints as its result. Lambda's tables hold the mean of
these over the logs of a folder, cut to whole numbers.

Two generations of containers word their logs differently: that of January 2020 does not print the arguments
of SSD, nor how many ranks Transformer-XL has. What a log does not say is taken from the names of its folders
where these say it, and is absent otherwise.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelmark import names
from accelmark.errors import UnreadableInputError
from accelmark.importers.dllogger import FAILURE_MARKERS, Failure, blocks, failure, hits
from accelmark.importers.lambda_csv import COLUMNS, exact_precision
from accelmark.importers.lines import lines, text
from accelmark.importers.summary import Summary, need_folder
from accelmark.job import Job, Scalar
from accelmark.record import Metrics, Origin, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Cpu, Software, System
from accelmark.text import safe

SET = "lambda-logs"
SYSTEM_FILE = "sys_pytorch.txt"
MAX_ROW = 300

NO_RESULT = "the log ends without its result"
CONTRADICTION = "the log and its folder's name disagree about the number of accelerators"
SEVERAL_RESULTS = "the log holds several results that differ"
NOT_READ = "logs of this task are not read"
SAME_RUN = "another log is of the same system, task and date"
COUNT_NOT_SAID = "neither the log nor its folder's name says how many accelerators ran"

_Facts = tuple[tuple[re.Pattern[bytes], str], ...]


@dataclass(frozen=True)
class Task:
    """How the logs of one task are read.

    `result` is in every line that `figure` may match; its group is the throughput in units/s, summed over
    ranks. `basis` says how the program comes by the figure. `facts` are what else is looked for: text that a
    line must hold, the patterns to apply then, and the names of what their groups say.
    """

    result: bytes
    figure: re.Pattern[bytes]
    basis: str
    facts: Mapping[bytes, _Facts]


def _facts(**patterns: bytes) -> _Facts:
    return tuple((re.compile(pattern), name) for name, pattern in patterns.items())


# The unit ends each pattern, and a delimiter each fact, so that a number that was cut off does not match.
# Another rank's line may follow the unit without a line end.
_FIGURE = rb"([0-9]{1,12}\.[0-9]{1,18})"
_TRANSFORMER_XL = Task(
    b"Training throughput",
    re.compile(rb"Training throughput: " + _FIGURE + rb" tok/s"),
    "the log's figure is the mean over intervals of 10 steps, without the first ones",
    {
        b"Namespace(": _facts(
            adaptive=rb"[ (]adaptive=(True|False)[,)]",
            global_batch=rb"[ (]batch_size=([0-9]{1,9})[,)]",
            batch=rb"[ (]local_batch_size=([0-9]{1,9})[,)]",
            chunks=rb"[ (]batch_chunk=([0-9]{1,9})[,)]",
            sequence_length=rb"[ (]tgt_len=([0-9]{1,9})[,)]",
            data=rb"[ (]dataset='(\w{1,50})'[,)]",
            half=rb"[ (]fp16=(True|False)[,)]",
        ),
        b"world size": _facts(accelerators=rb"^world size: ([0-9]{1,5})\s"),
        b"#params": _facts(parameters=rb"^#params = ([0-9]{1,15})\s"),
        b"GPU 0": _facts(board=rb"^GPU 0: ([^\r\n]{1,100})\r?\n"),
        b"driver": _facts(driver=rb"^Nvidia driver version: ([0-9][0-9.]{1,20})\s"),
        b"PyTorch version": _facts(framework=rb"^PyTorch version: (\S{1,50})\s"),
    },
)
#: By the task's column in Lambda's tables, as its folder is named.
TASKS = {
    "ssd": Task(
        b"Training performance",
        re.compile(rb"Training performance = " + _FIGURE + rb" FPS"),
        "the log's figure is each rank's median over steps, summed over ranks",
        {
            b"PARAMETER": _facts(
                batch=rb"(?<!eval )batch size : ([0-9]{1,9}) ",
                half=rb" AMP : (True|False) ",
            )
        },
    ),
    "resnet50": Task(
        b"Summary: ",
        re.compile(rb"Summary: [^:]{1,30} : [^:]{1,30}  train\.total_ips : " + _FIGURE + rb" img/s"),
        "the log's figure is the mean of both epochs' means over steps",
        {
            b"PARAMETER": _facts(
                batch=rb"(?<!optimizer_)batch_size : ([0-9]{1,9}) ",
                optimizer_batch=rb"optimizer_batch_size : ([0-9]{1,9}) ",
                fp16=rb" fp16 : (True|False) ",
                amp=rb" amp : (True|False) ",
                accelerators=rb" world_size : ([0-9]{1,5}) ",
                data=rb" data_backend : (\S{1,50}) ",
            )
        },
    ),
    "maskrcnn": Task(
        b"Training perf is",
        re.compile(rb"Training perf is: " + _FIGURE + rb" FPS"),
        "the log's figure is of all iterations, the first ones included",
        {
            b"gpu_count": _facts(accelerators=rb" gpu_count : ([0-9]{1,5}) "),
            b"INFO: Using": _facts(accelerators=rb" INFO: Using ([0-9]{1,5}) GPUs\s"),
            b"DTYPE": _facts(data_type=rb"^DTYPE: (\w{1,20})\s"),
            b"TRAIN:": _facts(data=rb"""^  TRAIN: \(['"](\w{1,50})['"],\)\s"""),
            b"PyTorch version": _facts(framework=rb"^PyTorch version: (\S{1,50})\s"),
        },
    ),
    "transformerxlbase": _TRANSFORMER_XL,
    "transformerxllarge": _TRANSFORMER_XL,
}
#: What the logs call their data; a path says too little.
_DATA = {
    "syntetic": "synthetic",  # as the program spells it
    "wt103": "WikiText-103",
    "coco_2017_train": "COCO 2017",
}

_TASK_FOLDER = re.compile(r"PyTorch_(?P<task>.+)_(?P<precision>FP32|FP16|AMP)")
_SYSTEM_FOLDER = re.compile(r"(?:(?P<host>[A-Za-z]+)_)?(?:(?P<count>[0-9]{1,4})x)?(?P<board>.+)")
_DATE = re.compile(r"([0-9]{2})-([0-9]{2})-([0-9]{4})_([0-9]{2})-([0-9]{2})-([0-9]{2})")
_READING = re.compile(r"([0-9]{1,3}), ([0-9]{1,3}) %, ([0-9]{1,7}) MiB")
_GIB = re.compile(r"([0-9]{1,6})Gi?")
_MIB = re.compile(r"([0-9]{1,8})_MiB")
#: The parts of Mask R-CNN's configuration that give a number of images, for training and for testing.
_SECTIONS = (b"SOLVER:", b"TEST:", b"IMS_PER_BATCH:")
_SECTION = re.compile(rb"^([A-Z_]+):")
_IMAGES_PER_BATCH = re.compile(rb"^  IMS_PER_BATCH: ([0-9]{1,9})\s")
_RANKS = b"Done benchmarking. Total images"


def read(path: Path) -> tuple[list[Record], Summary]:
    """Read the logs in a folder: all of `results`, one system's, or one task's. Records in order of path.

    Raises `UnreadableInputError` if it is no folder or holds no log of a task that is known.
    """
    need_folder(path, "give Lambda's folder of results, or that of one system.")
    summary = Summary()
    root = path.resolve()
    machines: dict[Path, list[dict[str, str]]] = {}
    records: dict[str, Record] = {}
    for file, task, precision in _logs(root, summary):
        name = _plain(file.relative_to(root))
        folder = file.parent.parent
        if folder not in machines:
            machines[folder] = _machines(folder)
        try:
            log = _scan(file, task)
        except OSError as error:
            summary.skip(name, None, f"the file cannot be read: {error.strerror}")
            continue
        record = _record(_Run(file, name, task, precision), log, machines[folder])
        if isinstance(record, str):
            summary.skip(name, None, record)
        elif record.id in records:
            summary.skip(name, None, SAME_RUN, record.id)
        else:
            records[record.id] = record
            summary.files[name] = 1
    if not records:
        raise UnreadableInputError(
            f"{safe(path)} holds no log of Lambda's that can be read{summary.because()}; expected folders "
            f"such as 8x3090/PyTorch_SSD_AMP with .txt files in them."
        )
    summary.records = len(records)
    return list(records.values()), summary


def _logs(root: Path, summary: Summary) -> Iterator[tuple[Path, str, str]]:
    """Each log with its task's column and precision; folders of other tasks are named in the summary."""
    folders = {file.parent for file in root.rglob("PyTorch_*/*.txt")}
    if root.name.startswith("PyTorch_"):
        folders.add(root)
    for folder in sorted(folders):
        match = _TASK_FOLDER.fullmatch(folder.name)
        task = match["task"].lower() if match else ""
        if not match or task not in TASKS:
            summary.skip(_plain(folder.relative_to(root)), None, NOT_READ)
            continue
        for file in sorted(folder.glob("*.txt")):
            if file.is_file():
                yield file, task, match["precision"]


def _plain(path: Path | str) -> str:
    """A path as text: what is no UTF-8 in it becomes U+FFFD, which JSON can hold."""
    return text(os.fsencode(path))


@dataclass(frozen=True)
class _Run:
    """What the place of a log says of it."""

    file: Path
    name: str
    task: str
    precision: str

    @property
    def system(self) -> str:
        return _plain(self.file.parent.parent.name)

    @property
    def started(self) -> str:
        """The date in the file's name: the machine's clock, in a time zone that nothing tells."""
        match = _DATE.fullmatch(self.file.stem)
        if not match:
            return ""
        day, month, year, *time = match.groups()
        return f", {year}-{month}-{day} {':'.join(time)}"


@dataclass
class _Log:
    """What a log says. `said` has every value that was given for a fact."""

    results: set[float] = field(default_factory=set)
    line: int | None = None
    row: str | None = None
    ranks: int = 0
    said: dict[str, set[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def only(self, fact: str) -> str | None:
        """What the log says, if it says one thing."""
        values = self.said.get(fact, set())
        return next(iter(values)) if len(values) == 1 else None

    def count(self, fact: str) -> int | None:
        """A fact that is a number of things, at least one."""
        return int(self.only(fact) or 0) or None


def _scan(path: Path, name: str) -> _Log:
    """Read a log once. A last line without its end may be cut off and is not read."""
    task = TASKS[name]
    log = _Log()
    facts = list(task.facts.items())
    section = b""
    markers = (task.result, _RANKS, *_SECTIONS, *task.facts, *FAILURE_MARKERS)
    found = (hit for first, block in blocks(path) for hit in hits(block, first, markers))
    for number, line, _ in found:
        if not line.endswith(b"\n"):
            break
        if task.result in line and (match := task.figure.search(line)):
            log.results.add(float(match[1]))
            log.line, log.row = number, text(line)[:MAX_ROW]
        elif _RANKS in line:
            log.ranks += line.count(_RANKS)
        elif problem := failure(line):
            # Every rank says the same; the first ones tell why.
            log.failures += [problem] if len(log.failures) < 100 else []
        for marker, patterns in facts:
            if marker in line:
                for pattern, fact in patterns:
                    if match := pattern.search(line):
                        log.said.setdefault(fact, set()).add(text(match[1]))
        if name == "maskrcnn":
            if match := _SECTION.match(line):
                section = match[1]
            elif section == b"SOLVER" and (match := _IMAGES_PER_BATCH.match(line)):
                # The first container prints the file's settings before those that hold.
                log.said["global_batch"] = {text(match[1])}
    return log


def _record(run: _Run, log: _Log, machines: list[dict[str, str]]) -> Record | str:
    """The Record of a log, or why there is none."""
    spec = COLUMNS[run.task]
    accelerators = _accelerators(run, log)
    if isinstance(accelerators, str):
        return accelerators
    if len(log.results) > 1:
        return SEVERAL_RESULTS
    value = next(iter(log.results), 0.0)
    reasons: list[str] = []
    status = _status(value, log, reasons)
    if status is Status.OK:
        reasons.append(TASKS[run.task].basis)
    system, software = _system(run, log, accelerators, machines, reasons)
    parameters: dict[str, Scalar] = dict(spec.parameters)
    batch_size = _batch_size(log, accelerators, parameters, reasons)
    throughput = Throughput(value=value, unit=f"{spec.unit}/s") if status is Status.OK else None
    return Record(
        id=_identity(run),
        source=Source.IMPORTED,
        status=status,
        job=Job(
            network=spec.network,
            size=_size(run, log, reasons),
            parameters=parameters,
            framework="pytorch",
            precision=_precision(run, log, system.accelerator.name, reasons),
            batch_size=batch_size,
            accelerators=accelerators,
            data=_DATA.get(log.only("data") or ""),
            sequence_length=log.count("sequence_length"),
        ),
        reasons=reasons,
        system=system,
        software=software,
        metrics=Metrics(
            throughput=throughput,
            parameters=log.count("parameters"),
            not_measured={"power_w": _monitor(run.file.with_name(f"{run.file.stem}_monitor.csv"))},
        ),
        origin=Origin(
            file=run.name,
            section=f"{run.file.parent.name}{run.started}",
            line=log.line,
            row=log.row,
        ),
    )


def _identity(run: _Run) -> str:
    identity = f"{SET}/{run.system}/{run.file.parent.name}/{_plain(run.file.stem)}"
    if len(identity) <= 200:
        return identity
    return f"{SET}/{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _accelerators(run: _Run, log: _Log) -> int | str:
    """How many accelerators ran, by the log and by the system's folder; or why that is not certain."""
    match = _SYSTEM_FOLDER.fullmatch(run.system)
    named = int(match["count"]) if match and match["count"] else None
    # Without a number it is one, but for a cloud's instance types: p3.16xlarge holds eight.
    if named is None and "xlarge" not in run.system:
        named = 1
    said = log.count("accelerators")
    if run.task == "ssd" and log.results and log.ranks:
        said = log.ranks
    if named is not None and said is not None and named != said:
        return CONTRADICTION
    return said or named or COUNT_NOT_SAID


def _status(value: float, log: _Log, reasons: list[str]) -> Status:
    """How the run ended. An error beside a result is said: workers that feed data may fail without harm."""
    first = next((found for found in log.failures if found.out_of_memory), None)
    first = first or next(iter(log.failures), None)
    if value > 0 and math.isfinite(value):
        if first:
            reasons.append(f"there is an error in the log, besides its result: {first.text}")
        return Status.OK
    if first:
        reasons.append(first.text)
        return Status.OUT_OF_MEMORY if first.out_of_memory else Status.CRASHED
    reasons.append("the log's result is 0" if log.results else NO_RESULT)
    return Status.CRASHED if log.results else Status.INTERRUPTED


def _size(run: _Run, log: _Log, reasons: list[str]) -> str:
    """Transformer-XL is another load without its adaptive softmax, and the log says which it was."""
    if TASKS[run.task] is not _TRANSFORMER_XL:
        return COLUMNS[run.task].size
    match log.only("adaptive"):
        case "True":
            return "full"
        case "False":
            return "full-softmax"
        case _:
            reasons.append("the log does not say whether the softmax is adaptive, so the size is not known")
            return "not-known"


def _precision(run: _Run, log: _Log, board: str, reasons: list[str]) -> str | None:
    """The precision that ran, by the folder's name and what the log says; `None` where these disagree."""
    folder = "fp32" if run.precision == "FP32" else "fp16"
    said = {{"True": "fp16", "False": "fp32"}[value] for value in log.said.get("half", ())}
    # ResNet-50 has two switches, either of which will do.
    switches = {*log.said.get("fp16", ()), *log.said.get("amp", ())}
    if switches:
        said.add("fp16" if "True" in switches else "fp32")
    said |= {names.precision(value) for value in log.said.get("data_type", ())}
    if said - {folder}:
        reasons.append(f"the folder's name says {folder}, the log {' and '.join(sorted(said))}")
        return None
    precision, why_not = exact_precision(folder, board)
    if why_not:
        reasons.append(why_not)
    return precision


def _batch_size(
    log: _Log, accelerators: int, parameters: dict[str, Scalar], reasons: list[str]
) -> int | None:
    """The batch on each accelerator, by the log's own arguments; accumulation of gradients is a parameter."""
    batch, total = log.count("batch"), log.count("global_batch")
    if batch is None:
        if total is None:
            reasons.append("the log does not say one batch size")
            return None
        if total % accelerators:
            reasons.append(f"batch size {total} does not divide by {accelerators} accelerators")
            return None
        batch = total // accelerators
    optimizer_batch = log.count("optimizer_batch")
    chunks = optimizer_batch // (batch * accelerators) if optimizer_batch else log.count("chunks") or 1
    if chunks > 1:
        parameters["gradient_accumulation"] = chunks
        # A chunk is a part of the batch; the optimizer's batch is a multiple of it.
        batch = batch if optimizer_batch else max(1, batch // chunks)
    return batch


def _machines(folder: Path) -> list[dict[str, str]]:
    """The descriptions in a system's file, which grows by one at each start of the benchmark, undated."""
    found: list[dict[str, str]] = []
    path = folder / SYSTEM_FILE
    if not path.is_file():
        return found
    try:
        for _, line in lines(path):
            key, colon, value = text(line).partition(":")
            if key == "CPU":
                found.append({})
            if found and colon and line.endswith(b"\n"):
                found[-1][key] = value.strip()
    except OSError:
        return []
    unique = {tuple(machine.items()): machine for machine in found}
    return list(unique.values())


def _system(
    run: _Run, log: _Log, accelerators: int, machines: list[dict[str, str]], reasons: list[str]
) -> tuple[System, Software]:
    """The machine and its software, where log and description leave no doubt.

    A folder's description may be of several machines or of one before and after an upgrade. What the log says
    decides between them; what remains different is not known.
    """
    said = {"NVIDIA driver": log.only("driver"), "PyTorch Version": log.only("framework")}
    candidates = [
        machine
        for machine in machines
        if all(value is None or machine.get(key, "") in ("", value) for key, value in said.items())
    ]

    def one(key: str) -> str | None:
        values = {machine[key] for machine in candidates if machine.get(key)}
        return values.pop() if len(values) == 1 else None

    keys = {key for machine in candidates for key in machine}
    unsure = [key for key in sorted(keys) if len({m[key] for m in candidates if m.get(key)}) > 1]
    if unsure:
        reasons.append(
            f"{SYSTEM_FILE} describes several machines, which differ in: {', '.join(unsure)}"[:300]
        )
    board, name = _board(run, log.only("board") or (one("GPU") or "").replace("_", " "), reasons)
    memory = _MIB.fullmatch(one("GPU Memory") or "")
    host_memory = _GIB.fullmatch(one("CPU Memory") or "")
    cpu, cuda = one("CPU"), one("CUDA Version")
    system = System(
        name=name,
        accelerator=Accelerator(
            name=board,
            kind="cuda",
            count=accelerators,
            memory_gib=int(memory[1]) / 1024 if memory else None,
            driver=said["NVIDIA driver"] or one("NVIDIA driver"),
        ),
        cpu=Cpu(name=cpu) if cpu else None,
        memory_gib=int(host_memory[1]) if host_memory else None,
        os=one("OS"),
    )
    software = Software(
        framework=said["PyTorch Version"] or one("PyTorch Version"),
        cuda=cuda.removeprefix("V") if cuda else None,
    )
    return system, software


def _board(run: _Run, board: str, reasons: list[str]) -> tuple[str, str]:
    """The board's name, and the system's: the board's too where the folder is named by nothing else."""
    match = _SYSTEM_FOLDER.fullmatch(run.system)
    folder = (match["board"] if match else run.system)[:150]
    if not board:
        reasons.append("the board is named by the folder only")
        board = folder
    canonical = names.board(board).removeprefix("GeForce ").removeprefix("Quadro ")[:150]
    plain = re.sub(r"\W|_|Quadro|GeForce", "", folder).lower()
    if match and not match["host"] and plain and re.sub(r"\W", "", canonical).lower().endswith(plain):
        return canonical, canonical
    return canonical, f"{match['host']}_{folder}" if match and match["host"] else folder


def _monitor(path: Path) -> str:
    """What the script beside the run noted, in words: it is too little to be a measurement.

    It printed temperature, utilisation and memory of the last board of the host every two seconds and longer,
    without times, from before the start until after the end.
    """
    if not path.is_file():
        return "no file with readings of the driver is beside the log"
    low, high, busy, memory, count = 1000, 0, 0, 0, 0
    try:
        for _, line in lines(path):
            if match := _READING.fullmatch(text(line).strip()):
                temperature, utilisation, used = (int(group) for group in match.groups())
                low, high = min(low, temperature), max(high, temperature)
                busy, memory, count = max(busy, utilisation), max(memory, used), count + 1
    except OSError as error:
        return f"the readings of the driver cannot be read: {error.strerror}"
    if not count:
        return "the file for readings of the driver has none"
    which = "" if busy else ", which was idle"
    return (
        f"the driver was read without power and times, on the host's last board only{which}: "
        f"{count} readings, {low} to {high} °C, at most {busy} % busy and {memory} MiB in use"
    )
