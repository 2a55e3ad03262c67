"""Lambda's tables of PyTorch training throughput (github.com/lambdal/deeplearning-benchmark, July 2021).

Four files: throughput and batch size, each for 32-bit and mixed precision; a row is a system, a column a
network. The tables are matched by the system's name, since their rows are in different orders. Both figures
are of the whole system: the raw logs of eight GPUs show an eighth of the table's batch on each.

A cell becomes a Record only if its figure is certain. 0 means that the network was not run or did not fit
in memory; it is named, not kept.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accelmark.errors import UnreadableInputError
from accelmark.importers.summary import Summary, need_folder
from accelmark.job import Job, Scalar
from accelmark.record import Metrics, Origin, Record, Source, Status, Throughput
from accelmark.system import Accelerator, System
from accelmark.text import safe

SET = "lambda-2021-07"
SECTION = "pytorch training throughput, July 2021"
THROUGHPUT_FILE = "pytorch-train-throughput-{}.csv"
BATCH_FILE = "pytorch-train-bs-{}.csv"
#: The precisions in the files' names.
FORMATS = ("fp32", "fp16")


@dataclass(frozen=True)
class Column:
    """What a column of the tables holds."""

    network: str
    unit: str
    size: str = "full"
    parameters: tuple[tuple[str, Scalar], ...] = ()


COLUMNS = {
    "ssd": Column("ssd300-resnet50", "images"),
    "resnet50": Column("resnet50-v1.5", "images"),
    "maskrcnn": Column("mask-rcnn-r50-fpn", "images"),
    # The raw logs say adaptive=False: the full softmax, 192.0 and 520.0 million parameters.
    "transformerxlbase": Column("transformer-xl-base", "tokens", "full-softmax"),
    "transformerxllarge": Column("transformer-xl-large", "tokens", "full-softmax"),
    "bert_base_squad": Column("bert-base", "sequences", parameters=(("task", "squad"),)),
    "bert_large_squad": Column("bert-large", "sequences", parameters=(("task", "squad"),)),
    "gnmt": Column("gnmt-v2", "tokens"),
    "ncf": Column("ncf", "samples"),
    "tacotron2": Column("tacotron2", "mels"),
    "waveglow": Column("waveglow", "samples"),
}

# ASCII only: float() would also take "1_000" and other scripts' digits, which no benchmark writes.
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,3})?")
_COUNT = re.compile(r"([0-9]{1,18})(\.0*)?")
#: "Lambda Cloud — 8x RTX 6000": who rents it out, how many, the board. The dash may have been mis-encoded.
_SYSTEM = re.compile(r"(?P<cloud>\w+ Cloud \W+ )?(?:(?P<count>[0-9]{1,4})x )?(?P<board>.+)")
#: Cloud instances are named by type; what they hold is Amazon's specification: GPU, GPUs by size.
_INSTANCES = (
    (re.compile(r"p3\.(2|8|16)xlarge"), "V100 16GB", {"2": 1, "8": 4, "16": 8}),
    (re.compile(r"p4d\.(24)xlarge"), "A100 40GB SXM4", {"24": 8}),
)
#: NVIDIA's Ampere generation was the first with TF32, and ran 32-bit products in it by default.
_AMPERE = re.compile(r"RTX 30[0-9]0|RTX A[0-9]+|A100\b")
_BEFORE_AMPERE = re.compile(r"V100\b|GTX |Titan RTX|RTX 20[0-9]0|RTX [568]000( NVLink)?$")

NOT_RUN = "the figure is 0: not run, or it did not fit in memory"
EMPTY = "the cell is empty: not run"
CUT = "the file ends without a line end: its last cell may be cut off"


def read(directory: Path) -> tuple[list[Record], Summary]:
    """Read the tables in a folder: Records in order of file, line and column, and the account of it."""
    summary = Summary()
    need_folder(directory, "give the folder with Lambda's CSV files.")
    records: list[Record] = []
    recognised = False
    for precision in FORMATS:
        table = _read_table(directory / THROUGHPUT_FILE.format(precision), summary)
        if table is None:
            continue
        recognised = True
        batches = _Batches(_read_table(directory / BATCH_FILE.format(precision), summary), precision)
        if batches.table is None:
            summary.note(table.file, None, f"no batch sizes: {batches.file} is not there or not readable")
        found = list(_records(table, precision, batches, summary))
        summary.files[table.file] = len(found)
        records += found
    if not recognised:
        raise UnreadableInputError(
            f"{safe(directory)} holds no table of Lambda's that can be read{summary.because()}; expected "
            f"{' or '.join(THROUGHPUT_FILE.format(precision) for precision in FORMATS)}."
        )
    summary.records = len(records)
    return records, summary


@dataclass(frozen=True)
class _Row:
    """One line of a table, with as many cells as the header. `cut`: the column that may be incomplete."""

    line: int
    text: str
    cells: dict[str, str]
    cut: str | None

    @property
    def name(self) -> str:
        return self.cells["name_gpu"]

    @property
    def accelerators(self) -> int | None:
        return _count(self.cells["num_gpu"])


@dataclass(frozen=True)
class _Table:
    file: str
    columns: list[str]
    rows: list[_Row]


def _read_table(path: Path, summary: Summary) -> _Table | None:
    """A table, or `None` if there is none; lines that cannot be understood are named in the summary."""
    if not path.exists():
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        summary.skip(path.name, None, f"the file cannot be read: {error.strerror}")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A name with a foreign dash is no reason to lose its figures; a damaged figure fails as a number.
        text = data.decode("utf-8-sig", errors="replace")
        summary.note(
            path.name,
            data.count(b"\n", 0, error.start) + 1,
            "not UTF-8 from here on; what could not be decoded is shown as \N{REPLACEMENT CHARACTER}",
        )
    # Not splitlines(), which also breaks at characters that may stand inside a cell.
    lines = re.split(r"\r\n|\n|\r", text)
    unterminated = len(lines) if lines[-1] else None
    header = [cell.strip() for cell in _cells(lines[0]) or []]
    if not {"name_gpu", "num_gpu"} <= set(header):
        summary.skip(path.name, 1, "the first line has no columns name_gpu and num_gpu")
        return None
    if len(set(header)) != len(header):
        summary.skip(path.name, 1, "two columns have the same name")
        return None
    for column in header:
        if column not in COLUMNS and column not in ("name_gpu", "num_gpu"):
            summary.skip(path.name, 1, "the column is no network that is known", column)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = _cells(line)
        if cells is None or len(cells) != len(header):
            summary.skip(path.name, number, "the line has not as many cells as the header")
            continue
        cut = header[-1] if number == unterminated else None
        if cut in ("name_gpu", "num_gpu"):
            summary.skip(path.name, number, CUT)
            continue
        by_column = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        rows.append(_Row(number, line, by_column, cut))
    return _Table(path.name, header, rows)


def _cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return None


class _Batches:
    """The batch sizes of one precision, by the system's name."""

    def __init__(self, table: _Table | None, precision: str) -> None:
        self.file = BATCH_FILE.format(precision)
        self.table = table
        self.rows: dict[str, list[_Row]] = {}
        for row in table.rows if table else ():
            self.rows.setdefault(row.name, []).append(row)

    def per_accelerator(self, row: _Row, column: str, accelerators: int) -> tuple[int | None, str | None]:
        """The batch size on each accelerator, or `None` and why it is not known."""
        total = self._total(row, column)
        if isinstance(total, str):
            return None, f"batch size not known: {self.file} {total}"
        if total % accelerators:
            return None, f"batch size {total} does not divide by {accelerators} accelerators"
        return total // accelerators, None

    def _total(self, row: _Row, column: str) -> int | str:
        if self.table is None:
            return "is not there or not readable"
        found = self.rows.get(row.name, [])
        if not found:
            return "has no row for this system"
        if {other.accelerators for other in found} != {row.accelerators}:
            return "has another num_gpu for this system"
        cells = {other.cells.get(column, "") for other in found if other.cut != column}
        total = _count(cells.pop()) if len(cells) == 1 else None
        if total is None:
            return "has no single figure for it"
        return total or "says 0, though there is a throughput"


def _count(cell: str) -> int | None:
    match = _COUNT.fullmatch(cell)
    return int(match[1]) if match else None


def _records(table: _Table, precision: str, batches: _Batches, summary: Summary) -> Iterator[Record]:
    """The Records of one throughput table; every cell that gives none is named."""
    networks = [column for column in table.columns if column in COLUMNS]
    by_name: dict[str, list[_Row]] = {}
    for row in table.rows:
        by_name.setdefault(row.name, []).append(row)
    for row in table.rows:
        system = _system(row)
        if isinstance(system, str):
            summary.skip(table.file, row.line, system)
            continue
        same = [other for other in by_name[row.name] if other.cells == row.cells]
        if same[0] is not row:
            summary.skip(table.file, row.line, "the line repeats an earlier one", f"line {same[0].line}")
            continue
        others = [str(other.line) for other in by_name[row.name] if other.cells != row.cells]
        reasons = [f"the file has another row for the same system, line {line}" for line in others]
        for column in networks:
            value = _figure(row, column)
            if isinstance(value, str):
                summary.skip(table.file, row.line, value, column)
                continue
            batch_size, no_batch = batches.per_accelerator(row, column, system.accelerator.count)
            exact, not_exact = exact_precision(precision, system.accelerator.name)
            spec = COLUMNS[column]
            yield Record(
                id=f"{SET}/{table.file}/{row.line}/{column}",
                source=Source.IMPORTED,
                status=Status.OK,
                reasons=[*reasons, *(reason for reason in (no_batch, not_exact) if reason)],
                job=Job(
                    network=spec.network,
                    size=spec.size,
                    parameters=dict(spec.parameters),
                    framework="pytorch",
                    precision=exact,
                    batch_size=batch_size,
                    accelerators=system.accelerator.count,
                ),
                system=system,
                metrics=Metrics(throughput=Throughput(value=value, unit=f"{spec.unit}/s")),
                origin=Origin(file=table.file, section=SECTION, line=row.line, row=f"{column}: {row.text}"),
            )


def _figure(row: _Row, column: str) -> float | str:
    """The throughput in a cell, or why there is none."""
    cell = row.cells[column]
    if not cell:
        return EMPTY
    if row.cut == column:
        return CUT
    if cell.startswith("-") and _NUMBER.fullmatch(cell[1:]):
        return "the figure is negative"
    if not _NUMBER.fullmatch(cell):
        return "the cell is no number"
    value = float(cell)
    if not math.isfinite(value):
        return "the cell is no finite number"
    return value if value > 0 else NOT_RUN


def _system(row: _Row) -> System | str:
    """The system of a row, or why the row cannot be used."""
    count = row.accelerators
    if not count:
        return "num_gpu is no number of accelerators"
    match = _SYSTEM.fullmatch(row.name)
    if not match or len(row.name) > 150:
        return "name_gpu is no name of a system"
    named = int(match["count"]) if match["count"] else None
    board = match["board"].removesuffix(" NVLink")
    for pattern, gpu, counts in _INSTANCES:
        if instance := pattern.fullmatch(board):
            board, named = gpu, counts[instance[1]]
    if named is not None and named != count:
        return "name_gpu and num_gpu disagree about the number of accelerators"
    return System(
        name=f"{match['cloud'] or ''}{match['board']}",
        accelerator=Accelerator(name=board, kind="cuda", count=count),
    )


def exact_precision(file_precision: str, board: str) -> tuple[str | None, str | None]:
    """The precision that ran, or `None` and why it is not known.

    The files say fp16 for mixed precision. They say fp32 for 32-bit storage, which Ampere boards multiply
    in TF32, as the study's footnote says, and older boards cannot.
    """
    if file_precision == "fp16":
        return "fp16", None
    if _AMPERE.match(board):
        return "tf32", None
    if _BEFORE_AMPERE.match(board):
        return "fp32", None
    return None, "32-bit; whether its products ran in TF32 is not known for this board"
