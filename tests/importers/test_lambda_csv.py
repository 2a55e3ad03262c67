"""Lambda's tables become Records, and nothing that is not certain becomes a number."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.errors import AccelmarkError, UnreadableInputError
from accelmark.importers.lambda_csv import COLUMNS, CUT, EMPTY, NOT_RUN, read
from accelmark.importers.summary import Summary
from accelmark.record import Record, Source, Status

TABLES = Path(__file__).resolve().parents[3] / "shared" / "lambda" / "csv-2021-07"
needs_tables = pytest.mark.skipif(not TABLES.is_dir(), reason=f"Lambda's tables are not here ({TABLES})")

THROUGHPUT = """\
name_gpu,num_gpu,ssd,maskrcnn,resnet50,ncf,transformerxlbase
RTX 3090,1.0,137.0,14.0,471.0,14717145.0,11772.0
8x RTX A6000,8.0,1057.0,93.0,3434.0,125381524.0,109421.0
4x RTX 3090,4.0,499.0,43.0,1839.0,36173274.0,46536.0
Lambda Cloud — 4x RTX 6000,4.0,472.0,35.0,1171.0,30240918.0,22809.0
RTX 2070 MAX-Q,1.0,49.0,4.0,135.0,0.0,0
V100 32GB,1.0,136.0,10.0,368.0,9799945.0,6518.0
2x RTX 8000 NVLink,2.0,229.0,20.0,591.0,17775522.0,12059.0
p3.16xlarge,8.0,1071.0,75.0,2862.0,86500059.0,42780.0
p4d.24xlarge,8.0,1975.0,161.0,6197.0,189675972.0,178244.0
"""
# In another order, since the tables must be matched by name.
BATCH = """\
name_gpu,num_gpu,ssd,maskrcnn,resnet50,ncf,transformerxlbase
p4d.24xlarge,8,1024,192,2880,32000000,208
p3.16xlarge,8,384,48,1184,11200000,64
4x RTX 3090,4,320,48,896,10016582,56
2x RTX 8000 NVLink,2,288,64,992,10000000,64
V100 32GB,1,108,15,296,3616582,20
RTX 2070 MAX-Q,1,16,4,64,12000,2
Lambda Cloud — 4x RTX 6000,4,320,48,896,10016582,56
8x RTX A6000,8,1152,256,3968,40000000,256
RTX 3090,1,80,12,224,2516582,14
"""


def folder(path: Path, throughput: str | bytes = THROUGHPUT, batch: str | bytes | None = BATCH) -> Path:
    def write(name: str, text: str | bytes) -> None:
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    write("pytorch-train-throughput-fp32.csv", throughput)
    if batch is not None:
        write("pytorch-train-bs-fp32.csv", batch)
    return path


def by_cell(records: list[Record]) -> dict[tuple[str, int, str], Record]:
    return {(r.system.name, r.job.accelerators, r.job.network): r for r in records}


def value(record: Record) -> float:
    assert record.metrics.throughput is not None
    return record.metrics.throughput.value


def reasons(summary: Summary, line: int) -> set[str]:
    return {skipped.why for skipped in summary.skipped if skipped.line == line}


def test_a_cell_becomes_a_record(tmp_path: Path) -> None:
    records, summary = read(folder(tmp_path))
    record = by_cell(records)["RTX A6000", 8, "ssd300-resnet50"]
    assert record.id == "lambda-2021-07/pytorch-train-throughput-fp32.csv/3/ssd"
    assert (record.source, record.status, record.reasons) == (Source.IMPORTED, Status.OK, [])
    assert record.metrics.throughput is not None
    assert (record.metrics.throughput.value, record.metrics.throughput.unit) == (1057.0, "images/s")
    assert record.metrics.throughput.ci95 is None
    assert record.job.batch_size == 144
    assert record.job.data is None
    assert (record.system.accelerator.name, record.system.accelerator.count) == ("RTX A6000", 8)
    assert record.origin is not None
    assert (record.origin.file, record.origin.line) == ("pytorch-train-throughput-fp32.csv", 3)
    assert record.origin.row == "ssd: 8x RTX A6000,8.0,1057.0,93.0,3434.0,125381524.0,109421.0"
    assert summary.records == len(records) == summary.files["pytorch-train-throughput-fp32.csv"] == 43


def test_sizes_and_tasks_are_those_of_the_logs(tmp_path: Path) -> None:
    header = "name_gpu,num_gpu,transformerxllarge,bert_large_squad,tacotron2,waveglow,gnmt\n"
    records, _ = read(folder(tmp_path, header + "RTX 3090,1.0,4062.0,17.0,19728.0,70841.0,43323.0\n", None))
    found = {r.job.network: (r.job.size, r.job.parameters, r.metrics.throughput.unit) for r in records}  # type: ignore[union-attr]
    assert found == {
        "transformer-xl-large": ("full-softmax", {}, "tokens/s"),
        "bert-large": ("full", {"task": "squad"}, "sequences/s"),
        "tacotron2": ("full", {}, "mels/s"),
        "waveglow": ("full", {}, "samples/s"),
        "gnmt-v2": ("full", {}, "tokens/s"),
    }


@pytest.mark.parametrize(
    ("system", "accelerators", "board", "precision"),
    [
        ("RTX 3090", 1, "RTX 3090", "tf32"),
        ("RTX A6000", 8, "RTX A6000", "tf32"),
        ("Lambda Cloud — RTX 6000", 4, "RTX 6000", "fp32"),
        ("RTX 2070 MAX-Q", 1, "RTX 2070 MAX-Q", "fp32"),
        ("V100 32GB", 1, "V100 32GB", "fp32"),
        ("RTX 8000 NVLink", 2, "RTX 8000", "fp32"),
        ("p3.16xlarge", 8, "V100 16GB", "fp32"),
        ("p4d.24xlarge", 8, "A100 40GB SXM4", "tf32"),
    ],
)
def test_systems_boards_and_precision(
    tmp_path: Path, system: str, accelerators: int, board: str, precision: str
) -> None:
    record = by_cell(read(folder(tmp_path))[0])[system, accelerators, "resnet50-v1.5"]
    assert record.system.accelerator.name == board
    assert record.job.precision == precision


def test_fp16_is_mixed_precision_on_every_board(tmp_path: Path) -> None:
    (tmp_path / "pytorch-train-throughput-fp16.csv").write_text(THROUGHPUT, encoding="utf-8")
    assert {record.job.precision for record in read(tmp_path)[0]} == {"fp16"}


def test_the_precision_of_a_board_that_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    records, _ = read(folder(tmp_path, "name_gpu,num_gpu,ssd\nRTX 6000 Ada,1.0,300.0\n", None))
    assert records[0].job.precision is None
    assert any("TF32" in reason for reason in records[0].reasons)


def test_zero_and_empty_cells_give_no_record(tmp_path: Path) -> None:
    records, summary = read(folder(tmp_path, THROUGHPUT.replace("136.0", "")))
    assert ("RTX 2070 MAX-Q", 1, "ncf") not in by_cell(records)
    assert ("V100 32GB", 1, "ssd300-resnet50") not in by_cell(records)
    assert all(value(record) > 0 for record in records)
    assert [(s.line, s.where, s.why) for s in summary.skipped] == [
        (6, "ncf", NOT_RUN),
        (6, "transformerxlbase", NOT_RUN),
        (7, "ssd", EMPTY),
    ]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("-137.0", "negative"),
        ("nan", "no number"),
        ("inf", "no number"),
        ("1e999", "no finite number"),
        ("n/a", "no number"),
        ("1_37", "no number"),
        ("١٣٧", "no number"),
        ("0x89", "no number"),
    ],
)
def test_a_cell_that_is_no_figure_is_named(tmp_path: Path, cell: str, why: str) -> None:
    records, summary = read(folder(tmp_path, THROUGHPUT.replace("137.0", cell)))
    assert ("RTX 3090", 1, "ssd300-resnet50") not in by_cell(records)
    (named,) = [skipped for skipped in summary.skipped if skipped.line == 2]
    assert why in named.why
    assert named.where == "ssd"


def test_batches_are_matched_by_name_and_divided_by_accelerators(tmp_path: Path) -> None:
    cells = by_cell(read(folder(tmp_path))[0])
    assert cells["RTX 3090", 1, "resnet50-v1.5"].job.batch_size == 224
    assert cells["RTX 3090", 4, "resnet50-v1.5"].job.batch_size == 224
    assert cells["RTX A6000", 8, "resnet50-v1.5"].job.batch_size == 496
    odd = cells["RTX 3090", 4, "ncf"]
    assert odd.job.batch_size is None
    assert odd.reasons == ["batch size 10016582 does not divide by 4 accelerators"]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (None, "is not there"),
        ("not,a,table\n1,2,3\n", "is not there or not readable"),
        (BATCH.replace("RTX 3090,1,", "RTX 3080,1,"), "no row"),
        (BATCH.replace("RTX 3090,1,80", "RTX 3090,2,80"), "another num_gpu"),
        (BATCH.replace("RTX 3090,1,80", "RTX 3090,1,0"), "says 0"),
        (BATCH.replace("RTX 3090,1,80", "RTX 3090,1,many"), "no single figure"),
        (BATCH + "RTX 3090,1,81,12,224,2516582,14\n", "no single figure"),
    ],
)
def test_a_batch_size_that_is_not_certain_is_absent_and_says_why(
    tmp_path: Path, batch: str | None, why: str
) -> None:
    record = by_cell(read(folder(tmp_path, batch=batch))[0])["RTX 3090", 1, "ssd300-resnet50"]
    assert value(record) == 137.0
    assert record.job.batch_size is None
    assert [why in reason for reason in record.reasons] == [True]


def test_a_line_that_contradicts_itself_is_not_read(tmp_path: Path) -> None:
    doubled = THROUGHPUT.replace("8x RTX A6000,8.0", "8x RTX A6000,16.0")
    doubled = doubled.replace("p3.16xlarge,8.0", "p3.16xlarge,4.0").replace("V100 32GB,1.0", "V100 32GB,1.5")
    records, summary = read(folder(tmp_path, doubled))
    systems = {record.system.name for record in records}
    assert not systems & {"RTX A6000", "p3.16xlarge", "V100 32GB"}
    assert reasons(summary, 3) == {"name_gpu and num_gpu disagree about the number of accelerators"}
    assert reasons(summary, 7) == {"num_gpu is no number of accelerators"}
    assert reasons(summary, 9) == reasons(summary, 3)


def test_repeated_lines_count_once_and_differing_ones_say_so(tmp_path: Path) -> None:
    again = THROUGHPUT + THROUGHPUT.splitlines()[1] + "\nRTX 3090,1.0,138.0,14.0,471.0,14717145.0,11772.0\n"
    records, summary = read(folder(tmp_path, again))
    found = [r for r in records if r.system.name == "RTX 3090" and r.job.network == "ssd300-resnet50"]
    assert [(value(r), r.job.accelerators) for r in found] == [(137.0, 1), (499.0, 4), (138.0, 1)]
    assert found[0].reasons == ["the file has another row for the same system, line 12"]
    assert len({record.id for record in records}) == len(records)
    assert reasons(summary, 11) == {"the line repeats an earlier one"}


def test_short_long_and_cut_lines(tmp_path: Path) -> None:
    lines = THROUGHPUT.splitlines()
    lines[1] += ",5"
    lines[2] = lines[2].rpartition(",")[0]
    text = "\n".join(lines)[:-4]  # ends inside the last figure: 178244.0 -> 1782
    records, summary = read(folder(tmp_path, text))
    cells = by_cell(records)
    assert ("RTX 3090", 1, "ssd300-resnet50") not in cells
    assert ("RTX A6000", 8, "ssd300-resnet50") not in cells
    assert reasons(summary, 2) == reasons(summary, 3) == {"the line has not as many cells as the header"}
    assert value(cells["p4d.24xlarge", 8, "ncf"]) == 189675972.0
    assert ("p4d.24xlarge", 8, "transformer-xl-base") not in cells
    assert reasons(summary, 10) == {CUT}


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str, mark: bytes) -> None:
    plain = [(r.id, value(r)) for r in read(folder(tmp_path))[0]]
    other = folder(tmp_path, mark + THROUGHPUT.replace("\n", end).encode())
    assert [(r.id, value(r)) for r in read(other)[0]] == plain


def test_bytes_that_are_not_utf8_are_named_and_cost_no_figure(tmp_path: Path) -> None:
    records, summary = read(folder(tmp_path, THROUGHPUT.encode("cp1252"), BATCH.encode("cp1252")))
    record = by_cell(records)["Lambda Cloud \N{REPLACEMENT CHARACTER} RTX 6000", 4, "ssd300-resnet50"]
    assert (value(record), record.job.batch_size) == (472.0, 80)
    assert [(note.file, note.line) for note in summary.notes] == [
        ("pytorch-train-throughput-fp32.csv", 5),
        ("pytorch-train-bs-fp32.csv", 8),
    ]


def test_columns_that_are_not_known_are_named(tmp_path: Path) -> None:
    _, summary = read(folder(tmp_path, THROUGHPUT.replace("maskrcnn", "yolo")))
    assert (summary.skipped[0].line, summary.skipped[0].where) == (1, "yolo")


@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\x00", b"a,b\n1,2\n", THROUGHPUT.encode("utf-16")])
def test_nothing_recognised_is_one_clear_sentence(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        folder(tmp_path, content, None)
    with pytest.raises(UnreadableInputError, match=r"holds no table of Lambda's that can be read") as raised:
        read(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableInputError, match="is not a folder"):
        read(tmp_path / "file")


def stands_in_its_line(record: Record) -> None:
    """The value is a cell of the line that the Record names, and it is the only thing the Record adds."""
    assert record.origin is not None
    assert record.origin.row is not None
    column, _, line = record.origin.row.partition(": ")
    assert COLUMNS[column].network == record.job.network
    cells = [cell.strip() for cell in next(csv.reader([line]))]
    assert any(_is(cell, value(record)) for cell in cells)
    assert any(_is(cell, record.job.accelerators) for cell in cells)


def _is(cell: str, number: float) -> bool:
    try:
        return float(cell) == number
    except ValueError:
        return False


def run(throughput: bytes, batch: bytes) -> list[Record]:
    with tempfile.TemporaryDirectory() as name:
        try:
            return read(folder(Path(name), throughput, batch))[0]
        except AccelmarkError:
            return []


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_raise_nothing_else_and_give_no_figure_that_is_not_there(data: st.DataObject) -> None:
    def damaged(text: str) -> bytes:
        raw = bytearray(
            text.encode(data.draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"]), "encoding"))
        )
        for _ in range(data.draw(st.integers(0, 6), "edits")):
            place = data.draw(st.integers(0, len(raw)), "place")
            edit = data.draw(st.sampled_from(["cut", "insert", "remove", "double"]), "edit")
            if edit == "cut":
                del raw[place:]
            elif edit == "remove":
                del raw[place : place + 1]
            elif edit == "insert":
                raw[place:place] = data.draw(
                    st.one_of(
                        st.binary(max_size=3), st.sampled_from([b",", b"\n", b"\r\n", b'"', b"-", b".", b"e"])
                    )
                )
            else:
                raw[place:place] = raw[place : place + 60]
        return bytes(raw)

    for record in run(damaged(THROUGHPUT), damaged(BATCH)):
        stands_in_its_line(record)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_cut_shuffled_and_repeated_lines_change_no_figure(data: st.DataObject) -> None:
    truth = by_cell(run(THROUGHPUT.encode(), BATCH.encode()))

    def rearranged(text: str) -> bytes:
        header, *lines = text.splitlines()
        lines = data.draw(st.lists(st.sampled_from(lines), max_size=15), "lines")
        columns = data.draw(st.permutations(range(len(header.split(",")))), "columns")
        rows = [line.split(",") for line in (header, *lines)]
        end = data.draw(st.sampled_from(["\n", "\r\n", "\n\n"]), "end")
        raw = "".join(",".join(row[c] for c in columns) + end for row in rows).encode()
        return raw[: data.draw(st.integers(0, len(raw)), "length")]

    for cell, record in by_cell(run(rearranged(THROUGHPUT), rearranged(BATCH))).items():
        assert value(record) == value(truth[cell])
        assert record.job.precision == truth[cell].job.precision
        assert record.job.batch_size in (truth[cell].job.batch_size, None)


@needs_tables
def test_the_real_tables_are_read_to_the_last_cell() -> None:
    records, summary = read(TABLES)
    expected: dict[tuple[str, str, int], float] = {}
    zeros = 0
    for precision in ("fp32", "fp16"):
        file = f"pytorch-train-throughput-{precision}.csv"
        with (TABLES / file).open(encoding="utf-8", newline="") as lines:
            for line, row in enumerate(csv.DictReader(lines), start=2):
                for column in COLUMNS:
                    zeros += float(row[column]) == 0
                    if float(row[column]):
                        expected[file, column, line] = float(row[column])
    found = {}
    for record in records:
        stands_in_its_line(record)
        assert record.origin is not None
        assert record.origin.file is not None
        assert record.origin.line is not None
        found[record.origin.file, record.id.rpartition("/")[2], record.origin.line] = value(record)
    assert found == expected
    assert summary.records == len(expected) == 1497
    assert zeros == len(summary.skipped) == 65
    assert {skipped.why for skipped in summary.skipped} == {NOT_RUN}
    assert not summary.notes


@needs_tables
def test_every_real_board_has_a_precision() -> None:
    assert all(record.job.precision for record in read(TABLES)[0])


@needs_tables
def test_real_batches_are_per_accelerator() -> None:
    cells = {(*key, r.job.precision): r for r in read(TABLES)[0] for key in by_cell([r])}
    # The raw logs of eight A6000s say batch 144 on each for SSD at 32-bit.
    assert cells["RTX A6000", 8, "ssd300-resnet50", "tf32"].job.batch_size == 144
    assert cells["RTX A6000", 1, "ssd300-resnet50", "tf32"].job.batch_size == 144
    assert cells["RTX 3090", 8, "transformer-xl-large", "fp16"].job.batch_size == 8
