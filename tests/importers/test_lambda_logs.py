"""Lambda's raw logs become Records, and agree with Lambda's tables cell by cell."""

from __future__ import annotations

import csv
import math
import tempfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.errors import UnreadableInputError
from accelmark.importers.lambda_csv import COLUMNS
from accelmark.importers.lambda_logs import (
    CONTRADICTION,
    COUNT_NOT_SAID,
    NO_RESULT,
    NOT_READ,
    SAME_RUN,
    SEVERAL_RESULTS,
    TASKS,
    read,
)
from accelmark.importers.summary import Summary
from accelmark.record import Record, Source, Status
from tests.importers.damage import damaged

LAMBDA = Path(__file__).resolve().parents[3] / "shared" / "lambda"
RESULTS = LAMBDA / "results"
TABLES = LAMBDA / "csv-2021-07"
needs_results = pytest.mark.skipif(
    not (RESULTS.is_dir() and TABLES.is_dir()), reason=f"Lambda's logs and tables are not here ({LAMBDA})"
)

RANK = (
    "DLL 2021-02-05 05:25:49.1 - PARAMETER epochs : 1  batch size : 140  eval batch size : 32  AMP : True  \n"
)
SSD = (
    RANK * 2
    + "Using seed = 3\n"
    + "Done benchmarking. Total images: 2560\ttotal time: 11.3\tMedian images/sec: 225.3\n"
    + "Done benchmarking. Total images: 2560\ttotal time: 11.3\tMedian images/sec: 226.5\n"
    + "Training performance = 451.75 FPS\n"
    + "DONE!\n"
)
RESNET = (
    "DLL 2021-07-13 04:29:09.4 - PARAMETER data : /data/imagenet  data_backend : syntetic  arch : resnet50  "
    "batch_size : 448  optimizer_batch_size : -1  fp16 : True  amp : False  world_size : 2 \n"
    "DLL 2021-07-13 04:29:18.2 - Epoch: 0 Iteration: 1  train.loss : 7.08  train.total_ips : 449.31 img/s\n"
    "DLL 2021-07-13 04:30:15.1 - Epoch: 0  train.loss : 6.33887  train.total_ips : 1579.27 img/s\n"
    "DLL 2021-07-13 04:31:13.5 - Summary: train.loss : 6.33887  train.total_ips : 1603.51 img/s\n"
    "DLL 2021-07-13 04:31:13.5 - Summary: lr : 0.1  train.compute_ips : 1605.78 img/s train.data : 0.0 s\n"
    "Experiment ended\n"
    "DONE!\n"
)
MASK = (
    "DLL 2021-01-01 11:52:41.9 - PARAMETER gpu_count : 2 \n"
    "DATASETS:\n"
    "  TEST: ('coco_2017_val',)\n"
    "  TRAIN: ('coco_2017_train',)\n"
    "DTYPE: float16\n"
    "SOLVER:\n"
    "  IMS_PER_BATCH: 32\n"
    "TEST:\n"
    "  IMS_PER_BATCH: 1 \n"
    "WARNING: When using more than one image per GPU you may encounter an out-of-memory (OOM) error\n"
    "2021-01-01 12:00:06,457 maskrcnn_benchmark.trainer INFO: Total training time: 0:07:01 (2.1063 s / it)\n"
    "Training perf is: 15.192518 FPS\n"
    "DONE!\n"
)
XL = (
    "Namespace(adaptive=False, amp='apex', batch_chunk=1, batch_size=128, dataset='wt103', "
    "eval_batch_size=16, eval_tgt_len=192, fp16=True, local_batch_size=None, tgt_len=192, tied=True)\n"
    "world size: 2\n"
    "PyTorch version: 1.7.0a0+7036e91\n"
    "GPU 0: GeForce RTX 3090\n"
    "Nvidia driver version: 460.39\n"
    "#params = 191948759\n"
    "| epoch   1 step       10 | batches     10 / 8401 | ms/batch 628.8 | tok/s   19543 | loss 12.55\n"
    "Training time: 1.06 minutes\n"
    "Training throughput: 50463.20 tok/s\n"
    "DONE!\n"
)
LOGS = {
    "PyTorch_SSD_AMP": SSD,
    "PyTorch_resnet50_FP16": RESNET,
    "PyTorch_maskrcnn_FP16": MASK,
    "PyTorch_transformerxlbase_FP16": XL,
}
TRUTH = {
    "PyTorch_SSD_AMP": 451.75,
    "PyTorch_resnet50_FP16": 1603.51,
    "PyTorch_maskrcnn_FP16": 15.192518,
    "PyTorch_transformerxlbase_FP16": 50463.2,
}
STEM = "05-02-2021_05-25-48"
MACHINE = """\
CPU: AMD EPYC 7662 64-Core Processor
CPU Memory: 503G
GPU: GeForce_RTX_3090
GPU Memory: 24268_MiB
NVIDIA driver: 460.39
CUDA Version: V11.1.74
CUDNN Version: ..
OS: Ubuntu 18.04.5 LTS
PyTorch Version: 1.7.0a0+7036e91
"""
OTHER_MACHINE = MACHINE.replace("EPYC 7662 64-Core", "EPYC 7313 16-Core").replace("460.39", "460.84")


def write(
    path: Path, logs: Mapping[str, str | bytes], system: str = "2x3090", machine: str | None = MACHINE
) -> Path:
    for task, content in logs.items():
        folder = path / system / task
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{STEM}.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    if machine is not None:
        (path / system / "sys_pytorch.txt").write_text(machine)
    return path


def one(path: Path, task: str, content: str, system: str = "2x3090", machine: str | None = MACHINE) -> Record:
    (record,) = read(write(path, {task: content}, system, machine))[0]
    return record


def value(record: Record) -> float | None:
    return record.metrics.throughput.value if record.metrics.throughput else None


def whys(summary: Summary) -> set[str]:
    return {skipped.why for skipped in summary.skipped}


def test_a_log_becomes_a_record(tmp_path: Path) -> None:
    record = one(tmp_path, "PyTorch_SSD_AMP", SSD)
    assert record.id == f"lambda-logs/2x3090/PyTorch_SSD_AMP/{STEM}"
    assert (record.source, record.status) == (Source.IMPORTED, Status.OK)
    assert record.started_at is None  # the file's name says when, but not in which time zone
    assert record.metrics.throughput is not None
    assert (record.metrics.throughput.value, record.metrics.throughput.unit) == (451.75, "images/s")
    assert record.job.network == "ssd300-resnet50"
    assert (record.job.batch_size, record.job.accelerators, record.job.precision) == (140, 2, "fp16")
    assert record.job.data is None
    assert record.reasons == [TASKS["ssd"].basis]
    assert record.origin is not None
    assert record.origin.file == f"2x3090/PyTorch_SSD_AMP/{STEM}.txt"
    assert record.origin.section == "PyTorch_SSD_AMP, 2021-02-05 05:25:48"
    assert (record.origin.line, record.origin.row) == (6, "Training performance = 451.75 FPS")


def test_the_machine(tmp_path: Path) -> None:
    record = one(tmp_path, "PyTorch_SSD_AMP", SSD)
    assert (record.system.name, record.system.accelerator.name) == ("RTX 3090", "RTX 3090")
    assert (record.system.accelerator.count, record.system.accelerator.driver) == (2, "460.39")
    assert record.system.accelerator.memory_gib == 24268 / 1024
    assert record.system.cpu is not None
    assert record.system.cpu.name == "AMD EPYC 7662 64-Core Processor"
    assert (record.system.memory_gib, record.system.os) == (503, "Ubuntu 18.04.5 LTS")
    assert (record.software.framework, record.software.cuda) == ("1.7.0a0+7036e91", "11.1.74")
    assert record.software.cudnn is None


def test_the_other_tasks(tmp_path: Path) -> None:
    records = {r.job.network: r for r in read(write(tmp_path, LOGS))[0]}
    resnet = records["resnet50-v1.5"]
    assert (value(resnet), resnet.job.batch_size, resnet.job.data) == (1603.51, 448, "synthetic")
    mask = records["mask-rcnn-r50-fpn"]
    assert (value(mask), mask.job.batch_size, mask.job.data) == (15.192518, 16, "COCO 2017")
    xl = records["transformer-xl-base"]
    assert (value(xl), xl.job.batch_size, xl.job.data) == (50463.2, 64, "WikiText-103")
    assert (xl.job.size, xl.job.sequence_length, xl.metrics.parameters) == ("full-softmax", 192, 191948759)
    assert {r.job.accelerators for r in records.values()} == {2}
    assert {r.job.precision for r in records.values()} == {"fp16"}


def test_the_container_of_january_2020_says_less(tmp_path: Path) -> None:
    ssd = "".join(SSD.splitlines(keepends=True)[2:])
    mask = (
        "2020-03-09 03:23:05,056 maskrcnn_benchmark INFO: Using 2 GPUs\n"
        "SOLVER:\n  IMS_PER_BATCH: 1\nTEST:\n  IMS_PER_BATCH: 1\n"
        "DTYPE: float16\nSOLVER:\n  IMS_PER_BATCH: 32\nTEST:\n  IMS_PER_BATCH: 1\n"
        "Training perf is: 15.192518 FPS\nDONE!\n"
    )
    xl = XL.replace("world size: 2\n", "").replace("amp='apex', ", "")
    logs = {
        "PyTorch_SSD_AMP": ssd,
        "PyTorch_maskrcnn_FP16": mask,
        "PyTorch_transformerxlbase_FP16": xl,
    }
    records = {r.job.network: r for r in read(write(tmp_path, logs))[0]}
    assert (value(records["ssd300-resnet50"]), records["ssd300-resnet50"].job.batch_size) == (451.75, None)
    assert "the log does not say one batch size" in records["ssd300-resnet50"].reasons
    assert records["mask-rcnn-r50-fpn"].job.batch_size == 16
    assert records["transformer-xl-base"].job.batch_size == 64


@pytest.mark.parametrize(
    ("said", "size"), [("True", "full"), ("False", "full-softmax"), ("None", "not-known")]
)
def test_the_size_of_transformer_xl_is_what_the_log_says(tmp_path: Path, said: str, size: str) -> None:
    log = XL.replace("adaptive=False", f"adaptive={said}")
    assert one(tmp_path, "PyTorch_transformerxlbase_FP16", log).job.size == size


@pytest.mark.parametrize(
    ("task", "old", "new", "batch", "accumulation"),
    [
        ("PyTorch_resnet50_FP16", "optimizer_batch_size : -1 ", "optimizer_batch_size : 3584 ", 448, 4),
        ("PyTorch_transformerxlbase_FP16", "batch_chunk=1", "batch_chunk=2", 32, 2),
        ("PyTorch_transformerxlbase_FP16", "local_batch_size=None", "local_batch_size=12", 12, None),
        ("PyTorch_transformerxlbase_FP16", "batch_size=128", "batch_size=129", None, None),
    ],
)
def test_batches(
    tmp_path: Path, task: str, old: str, new: str, batch: int | None, accumulation: int | None
) -> None:
    record = one(tmp_path, task, LOGS[task].replace(old, new))
    assert record.job.batch_size == batch
    assert record.job.parameters.get("gradient_accumulation") == accumulation


def test_32_bit_is_tf32_on_ampere(tmp_path: Path) -> None:
    log = SSD.replace("AMP : True", "AMP : False")
    assert one(tmp_path, "PyTorch_SSD_FP32", log).job.precision == "tf32"
    volta = MACHINE.replace("GeForce_RTX_3090", "Tesla_V100-SXM2-32GB")
    record = one(tmp_path / "other", "PyTorch_SSD_FP32", log, "2xV100", volta)
    assert (record.job.precision, record.system.accelerator.name) == ("fp32", "V100-SXM2-32GB")
    record = one(tmp_path / "third", "PyTorch_SSD_FP32", log, "2xH200", None)
    assert record.job.precision is None
    assert any("TF32" in reason for reason in record.reasons)


@pytest.mark.parametrize(
    ("folder", "fp16", "amp", "precision"),
    [
        ("FP16", "True", "False", "fp16"),
        ("AMP", "False", "True", "fp16"),
        ("FP32", "False", "False", "tf32"),
        ("FP32", "True", "False", None),
        ("FP16", "False", "False", None),
    ],
)
def test_the_two_switches_of_resnet(
    tmp_path: Path, folder: str, fp16: str, amp: str, precision: str | None
) -> None:
    log = RESNET.replace("fp16 : True  amp : False", f"fp16 : {fp16}  amp : {amp}")
    assert one(tmp_path, f"PyTorch_resnet50_{folder}", log).job.precision == precision


def test_a_precision_that_is_contradicted_is_not_known(tmp_path: Path) -> None:
    record = one(tmp_path, "PyTorch_SSD_FP32", SSD)
    assert (value(record), record.job.precision) == (451.75, None)
    assert "the folder's name says fp32, the log fp16" in record.reasons


def test_a_system_named_by_more_than_its_board(tmp_path: Path) -> None:
    assert one(tmp_path, "PyTorch_SSD_AMP", SSD, "LambdaCloud_2x3090").system.name == "LambdaCloud_3090"
    record = one(tmp_path / "other", "PyTorch_SSD_AMP", SSD, "2x3090NVlink_trt")
    assert (record.system.name, record.system.accelerator.name) == ("3090NVlink_trt", "RTX 3090")


def test_several_descriptions_of_machines(tmp_path: Path) -> None:
    machines = MACHINE + OTHER_MACHINE + MACHINE
    record = one(tmp_path, "PyTorch_SSD_AMP", SSD, machine=machines)
    assert record.system.cpu is None
    assert record.system.accelerator.driver is None
    assert record.system.os == "Ubuntu 18.04.5 LTS"
    assert "sys_pytorch.txt describes several machines, which differ in: CPU, NVIDIA driver" in record.reasons
    # Transformer-XL's log names the driver, which decides between them.
    record = one(tmp_path / "other", "PyTorch_transformerxlbase_FP16", XL, machine=machines)
    assert record.system.cpu is not None
    assert record.system.cpu.name == "AMD EPYC 7662 64-Core Processor"
    assert record.system.accelerator.driver == "460.39"


def test_values_that_could_not_be_collected_are_absent(tmp_path: Path) -> None:
    log = XL.replace("460.39", "Could not collect")
    record = one(tmp_path, "PyTorch_transformerxlbase_FP16", log, machine=None)
    assert record.system.accelerator.driver is None


@pytest.mark.parametrize(
    ("monitor", "why"),
    [
        (None, "no file with readings of the driver is beside the log"),
        ("\n\n\n", "the file for readings of the driver has none"),
        (
            "37, 0 %, 1 MiB\n58, 100 %, 22678 MiB\n54, 0 %, 1 MiB\n",
            "the driver was read without power and times, on the host's last board only: 3 readings, "
            "37 to 58 °C, at most 100 % busy and 22678 MiB in use",
        ),
        (
            "23, 0 %, 1 MiB\n24, 0 %, 3 MiB\n[garbage], 0\n",
            "the driver was read without power and times, on the host's last board only, which was idle: "
            "2 readings, 23 to 24 °C, at most 0 % busy and 3 MiB in use",
        ),
    ],
)
def test_what_was_read_beside_it_is_no_measurement_of_power(
    tmp_path: Path, monitor: str | None, why: str
) -> None:
    write(tmp_path, {"PyTorch_SSD_AMP": SSD})
    if monitor is not None:
        (tmp_path / "2x3090" / "PyTorch_SSD_AMP" / f"{STEM}_monitor.csv").write_text(monitor)
    (record,) = read(tmp_path)[0]
    assert record.metrics.power_w is None
    assert record.samples.telemetry == []
    assert record.metrics.not_measured["power_w"] == why


OUT_OF_MEMORY = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.53 GiB (GPU 0; 15.78 GiB total capacity)"
)
TRACEBACK = "Traceback (most recent call last):\n  File 'train.py', line 1, in <module>\n"
LAUNCHER = "subprocess.CalledProcessError: Command '['train.py']' returned non-zero exit status 1.\nDONE!\n"


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("", Status.INTERRUPTED, NO_RESULT),
        ("DONE!\n", Status.INTERRUPTED, NO_RESULT),
        ("Training throughput: 504", Status.INTERRUPTED, NO_RESULT),
        ("Training throughput: 50463.20 tok/s", Status.INTERRUPTED, NO_RESULT),  # no line end
        (f"{TRACEBACK}{OUT_OF_MEMORY}\n{LAUNCHER}", Status.OUT_OF_MEMORY, OUT_OF_MEMORY),
        (f"{TRACEBACK}RuntimeError: CUDA error\n{LAUNCHER}", Status.CRASHED, "RuntimeError: CUDA error"),
        ("Training throughput: 0.00 tok/s\n", Status.CRASHED, "the log's result is 0"),
    ],
)
def test_runs_that_did_not_end_well_have_no_figure(
    tmp_path: Path, end: str, status: Status, reason: str
) -> None:
    log = XL[: XL.index("Training throughput")] + end
    record = one(tmp_path, "PyTorch_transformerxlbase_FP16", log)
    assert (record.status, value(record)) == (status, None)
    assert reason in record.reasons
    assert record.job.batch_size == 64


def test_an_error_beside_a_result_is_said(tmp_path: Path) -> None:
    log = RESNET.replace("Experiment ended", "BrokenPipeError: [Errno 32] Broken pipe")
    record = one(tmp_path, "PyTorch_resnet50_FP16", log)
    assert (record.status, value(record)) == (Status.OK, 1603.51)
    assert (
        "there is an error in the log, besides its result: BrokenPipeError: [Errno 32] Broken pipe"
        in record.reasons
    )


def test_a_line_that_another_rank_ran_into(tmp_path: Path) -> None:
    log = SSD.replace("451.75 FPS\n", "451.75 FPSWARNING:root:DALI\n")
    assert value(one(tmp_path, "PyTorch_SSD_AMP", log)) == 451.75


def test_logs_that_give_no_record(tmp_path: Path) -> None:
    write(
        tmp_path, {"PyTorch_SSD_AMP": SSD, "PyTorch_ncf_FP32": "best_train_throughput: 5\n", "PyTorch_": ""}
    )
    write(tmp_path, {"PyTorch_SSD_AMP": SSD, "PyTorch_resnet50_FP16": RESNET}, "8x3090")
    write(tmp_path, {"PyTorch_transformerxlbase_FP16": XL.replace("world size: 2\n", "")}, "p3.16xlarge")
    write(tmp_path, {"PyTorch_transformerxllarge_FP16": XL + XL.replace("50463.20", "50463.21")})
    write(tmp_path / "zz", {"PyTorch_SSD_AMP": SSD})
    records, summary = read(tmp_path)
    assert [record.id for record in records] == [f"lambda-logs/2x3090/PyTorch_SSD_AMP/{STEM}"]
    assert {(skipped.file, skipped.why) for skipped in summary.skipped} == {
        ("2x3090/PyTorch_", NOT_READ),
        ("2x3090/PyTorch_ncf_FP32", NOT_READ),
        (f"8x3090/PyTorch_SSD_AMP/{STEM}.txt", CONTRADICTION),
        (f"8x3090/PyTorch_resnet50_FP16/{STEM}.txt", CONTRADICTION),
        (f"p3.16xlarge/PyTorch_transformerxlbase_FP16/{STEM}.txt", COUNT_NOT_SAID),
        (f"2x3090/PyTorch_transformerxllarge_FP16/{STEM}.txt", SEVERAL_RESULTS),
        (f"zz/2x3090/PyTorch_SSD_AMP/{STEM}.txt", SAME_RUN),
    }


def test_a_system_or_a_task_alone_gives_the_same_ids(tmp_path: Path) -> None:
    write(tmp_path, LOGS)
    whole = {record.id: value(record) for record in read(tmp_path)[0]}
    assert {record.id: value(record) for record in read(tmp_path / "2x3090")[0]} == whole
    (record,) = read(tmp_path / "2x3090" / "PyTorch_SSD_AMP")[0]
    assert whole[record.id] == value(record)
    assert record.system.name == "RTX 3090"


def test_nothing_recognised_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableInputError, match="is not a folder"):
        read(tmp_path / "file")
    with pytest.raises(UnreadableInputError, match="holds no log of Lambda's"):
        read(tmp_path)
    write(tmp_path, {"PyTorch_ncf_FP32": ""})
    with pytest.raises(UnreadableInputError, match="logs of this task are not read"):
        read(tmp_path)


def test_names_that_are_no_utf8_or_very_long(tmp_path: Path) -> None:
    folder = tmp_path / "2x3090\udcff" / "PyTorch_SSD_AMP"
    folder.mkdir(parents=True)
    (folder / f"{'a' * 220}.txt").write_text(SSD)
    (record,) = read(tmp_path)[0]
    assert len(record.id) < 60
    assert "\N{REPLACEMENT CHARACTER}" in record.model_dump_json()


def test_a_long_log_is_read_in_constant_memory(tmp_path: Path) -> None:
    step = RESNET.splitlines()[1] + " " * 400 + "\n"
    write(tmp_path, {"PyTorch_resnet50_FP16": step * 40_000 + "x" * 10_000_000 + "\n" + RESNET})
    tracemalloc.start()
    (record,) = read(tmp_path)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value(record) == 1603.51
    assert peak < 20_000_000


GARBAGE = [
    b"\xff\xfe\x00",
    b"\x00" * 9,
    "résumé\n".encode("utf-16"),
    b"\n\n",
    b"Training perf is: FPS\n",
    b"= FPS\n",
]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_logs_raise_nothing_else_and_give_no_figure_that_is_not_there(data: st.DataObject) -> None:
    task = data.draw(st.sampled_from(sorted(LOGS)), "task")
    raw = damaged(data, LOGS[task], GARBAGE)
    with tempfile.TemporaryDirectory() as name:
        try:
            records, _ = read(write(Path(name), {task: raw}))
        except UnreadableInputError:
            return
    for record in records:
        Record.model_validate_json(record.model_dump_json())
        assert record.job.accelerators == 2
        if record.status is Status.OK:
            assert value(record) == TRUTH[task]
            assert record.origin is not None
            assert record.origin.line is not None
        else:
            assert value(record) is None


# --- the real logs and Lambda's tables ----------------------------------------------------------------

SYSTEMS = {"3090": "RTX 3090", "8x3090": "8x RTX 3090", "A6000": "RTX A6000", "8xA6000": "8x RTX A6000"}
FOLDERS = {
    "fp32": {task: f"PyTorch_{task.replace('ssd', 'SSD')}_FP32" for task in TASKS},
    "fp16": {task: f"PyTorch_{task}_FP16" for task in TASKS} | {"ssd": "PyTorch_SSD_AMP"},
}
#: Cells that are no single log's figure, and why: system, precision, task.
TWO_MACHINES = "the mean over two logs: October 2020 and another machine in February 2021"
CAUSES = {
    ("3090", "fp32", "ssd"): TWO_MACHINES,
    ("3090", "fp32", "maskrcnn"): TWO_MACHINES,
    ("3090", "fp32", "transformerxlbase"): TWO_MACHINES,
    ("3090", "fp32", "transformerxllarge"): TWO_MACHINES,
    ("3090", "fp16", "ssd"): TWO_MACHINES,
    ("3090", "fp16", "maskrcnn"): TWO_MACHINES,
    ("3090", "fp16", "transformerxlbase"): TWO_MACHINES,
    ("3090", "fp16", "transformerxllarge"): TWO_MACHINES,
    ("3090", "fp16", "resnet50"): "the mean over two logs, of a real and of a synthetic data pipeline",
    ("8x3090", "fp16", "resnet50"): "the mean over two logs: February 2021 and a rerun in July",
}


def table(kind: str, precision: str) -> dict[str, dict[str, str]]:
    with (TABLES / f"pytorch-train-{kind}-{precision}.csv").open(encoding="utf-8", newline="") as file:
        return {row["name_gpu"]: row for row in csv.DictReader(file)}


@needs_results
def test_every_cell_of_the_tables_is_the_mean_of_its_logs_without_decimals() -> None:
    records, summary = read(RESULTS)
    assert (len(records), summary.skipped, summary.notes) == (50, [], [])
    assert {record.status for record in records} == {Status.OK}
    by_folder: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        _, system, folder, _ = record.id.split("/")
        by_folder.setdefault((system, folder), []).append(record)
    checked = 0
    several = set()
    for precision, folders in FOLDERS.items():
        throughput, batch = table("throughput", precision), table("bs", precision)
        for system, name in SYSTEMS.items():
            for task, folder in folders.items():
                found = by_folder.pop((system, folder))
                figures = [figure for record in found if (figure := value(record)) is not None]
                # Every decimal is cut off, none rounded: 1057.756 images/s became 1057.
                assert math.floor(sum(figures) / len(found)) == float(throughput[name][task])
                totals = {
                    record.job.batch_size * record.job.accelerators
                    for record in found
                    if record.job.batch_size
                }
                assert totals == {int(batch[name][task])}
                assert {record.job.network for record in found} == {COLUMNS[task].network}
                assert {record.job.size for record in found} == {COLUMNS[task].size}
                assert {record.job.accelerators for record in found} == {
                    int(float(throughput[name]["num_gpu"]))
                }
                if len(found) > 1:
                    several.add((system, precision, task))
                checked += 1
    assert checked == 40
    assert by_folder == {}
    assert several == set(CAUSES)


@needs_results
def test_what_the_real_logs_say() -> None:
    records = {record.id.removeprefix("lambda-logs/"): record for record in read(RESULTS)[0]}
    assert {record.system.name for record in records.values()} == {"RTX 3090", "RTX A6000"}
    assert {record.job.precision for record in records.values()} == {"tf32", "fp16"}
    assert all(record.job.batch_size for record in records.values())
    assert not any(record.samples.telemetry for record in records.values())
    # The first 3090 was fed with images, the other systems with what was made up on the spot.
    synthetic = {
        key.split("/")[0]
        for key, record in records.items()
        if record.job.data == "synthetic" and "resnet" in key
    }
    images = {key for key, record in records.items() if record.job.data is None and "resnet" in key}
    assert synthetic == set(SYSTEMS)
    assert images == {
        "3090/PyTorch_resnet50_FP16/31-10-2020_16-08-14",
        "3090/PyTorch_resnet50_FP32/31-10-2020_16-18-59",
    }
    # Two machines: the log names the driver, the description what else it was.
    cpus = {
        key[-19:]: record.system.cpu.name
        for key, record in records.items()
        if key.startswith("3090/PyTorch_transformerxlbase_FP16") and record.system.cpu
    }
    assert cpus == {
        "05-02-2021_11-45-43": "AMD EPYC 7662 64-Core Processor",
        "31-10-2020_15-40-52": "AMD Ryzen Threadripper 3970X 32-Core Processor",
    }
    parameters = {
        r.metrics.parameters for r in records.values() if r.job.network.startswith("transformer-xl")
    }
    assert parameters == {191_948_759, 519_963_095}
    idle = [key for key, r in records.items() if "which was idle" in r.metrics.not_measured["power_w"]]
    assert {key.split("/")[0] for key in idle} == {"3090", "A6000"}


@needs_results
def test_real_logs_cut_anywhere_keep_or_lose_their_figure(tmp_path: Path) -> None:
    for task, log in (
        ("PyTorch_SSD_AMP", "05-02-2021_05-25-48"),
        ("PyTorch_resnet50_FP16", "13-07-2021_04-29-03"),
        ("PyTorch_maskrcnn_FP16", "05-02-2021_06-36-58"),
        ("PyTorch_transformerxlbase_FP16", "05-02-2021_05-01-37"),
    ):
        raw = (RESULTS / "8x3090" / task / f"{log}.txt").read_bytes()
        (whole,) = [r for r in read(RESULTS / "8x3090" / task)[0] if r.id.endswith(log)]
        end = raw.rindex(str(value(whole))[:6].encode())
        for length in (*range(0, len(raw), len(raw) // 15), *range(end - 5, end + 30, 3)):
            (record,) = read(write(tmp_path / task, {task: raw[:length]}, "8x3090"))[0]
            assert value(record) in (None, value(whole))
            assert (value(record) is None) == (record.status is Status.INTERRUPTED)
