"""DLLogger's lines become Records; only a summary's figures with a unit are results."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.errors import UnreadableInputError
from accelmark.importers.dllogger import (
    BOARD_NOT_NAMED,
    COUNT_NOT_SAID,
    NO_LINES,
    NOTHING_KNOWN,
    failure,
    read,
)
from accelmark.record import Record, Source, Status
from tests.importers.damage import damaged

LAMBDA = Path(__file__).resolve().parents[3] / "shared" / "lambda" / "results"
needs_logs = pytest.mark.skipif(not LAMBDA.is_dir(), reason=f"Lambda's logs are not here ({LAMBDA})")

START = 1618833600.0  # 2021-04-19 12:00:00 UTC


class Log:
    """Lines of JSON, a second apart."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, **entry: Any) -> Log:
        seconds = float(len(self.lines))
        times = {
            "timestamp": str(START + seconds),
            "datetime": "2021-04-19 14:00:00",
            "elapsedtime": str(seconds),
        }
        self.lines.append("DLLL " + json.dumps({**times, **entry}) + "\n")
        return self

    def arguments(self, **data: Any) -> Log:
        return self.add(type="LOG", step="PARAMETER", data=data)

    def metadata(self, metric: str, unit: str | None, **more: Any) -> Log:
        return self.add(type="METADATA", metric=metric, metadata={"unit": unit, **more})

    def step(self, *step: int, **data: Any) -> Log:
        return self.add(type="LOG", step=step, data=data)

    def summary(self, data: dict[str, Any]) -> Log:
        return self.add(type="LOG", step=[], data=data)

    def __str__(self) -> str:
        return "".join(self.lines)


def training() -> Log:
    log = Log().arguments(arch="resnet50", batch_size=256, amp=True, world_size=1, data_backend="dali-cpu")
    log.metadata("train.total_ips", "images/s").metadata("train.loss", None)
    for i in range(4):
        log.step(0, i, **{"train.loss": 7.0 - i, "train.total_ips": 700.0 + i})
    return log.summary({"train.loss": 6.5, "train.total_ips": 751.25, "train.compute_ips": 760.0})


def write(path: Path, content: object, name: str = "log.json") -> Path:
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return file


def records(path: Path, content: object) -> dict[str, Record]:
    return {record.job.scenario: record for record in read(write(path, content))[0]}


def one(path: Path, content: object) -> Record:
    (record,) = records(path, content).values()
    return record


def value(record: Record) -> float | None:
    return record.metrics.throughput.value if record.metrics.throughput else None


def summary_of(
    path: Path, data: dict[str, Any], units: dict[str, str], **arguments: Any
) -> dict[str, Record]:
    log = Log().arguments(world_size=1, **arguments)
    for metric, unit in units.items():
        log.metadata(metric, unit)
    return records(path, log.summary(data))


def test_a_log_becomes_a_record(tmp_path: Path) -> None:
    record = one(tmp_path, training())
    assert record.id == "dllogger/log.json/training"
    assert (record.source, record.status) == (Source.IMPORTED, Status.OK)
    assert record.metrics.throughput is not None
    assert (record.metrics.throughput.value, record.metrics.throughput.unit) == (751.25, "images/s")
    assert record.job.network == "resnet50-v1.5"
    assert (record.job.precision, record.job.batch_size, record.job.accelerators) == ("fp16", 256, 1)
    assert (record.job.framework, record.job.engine, record.job.data) == (None, None, None)
    assert record.started_at == datetime(2021, 4, 19, 12, 0, 0, tzinfo=UTC)
    assert record.duration_s == 7.0
    assert record.system.name == BOARD_NOT_NAMED
    assert record.origin is not None
    assert (record.origin.file, record.origin.line) == ("log.json", 8)
    assert str(record.origin.row).startswith('DLLL {"timestamp": "1618833607.0"')
    assert record.reasons == [
        "train.compute_ips is not used: it is no throughput of the whole run",
        "the figure is train.total_ips",
    ]


@pytest.mark.parametrize(
    ("metric", "unit", "scenario", "canonical"),
    [
        ("train_throughput", "tokens/s", "training", "tokens/s"),
        ("throughput_train", "images/s", "training", "images/s"),
        ("average_train_throughput", "samples/s", "training", "samples/s"),
        ("train_throughout", "img/s", "training", "images/s"),
        ("train_items_per_sec", "items/s", "training", "items/s"),
        ("training_sequences_per_second", "sequences/s", "training", "sequences/s"),
        ("train_perf_fps", "images/s", "training", "images/s"),
        ("train_speed_toks", "tokens/s", "training", "tokens/s"),
        ("avg_exp_per_second_training", "samples/sec", "training", "samples/s"),
        ("inference_sequences_per_second", "sequences/s", "inference", "sequences/s"),
        ("infer_throughput", "samples/s", "inference", "samples/s"),
        ("throughput_val", "sequences/s", "inference", "sequences/s"),
        ("val.ips", "images/s", "inference", "images/s"),
        ("throughput_test", "images/s", "inference", "images/s"),
    ],
)
def test_names_of_throughputs(tmp_path: Path, metric: str, unit: str, scenario: str, canonical: str) -> None:
    found = summary_of(tmp_path, {metric: 12.5, "total_loss": 1.0}, {metric: unit})
    assert list(found) == [scenario]
    throughput = found[scenario].metrics.throughput
    assert throughput is not None
    assert (throughput.value, throughput.unit) == (12.5, canonical)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("train.imgs/s", "images/s"),
        ("training_sequences_per_second", "sequences/s"),
        ("train_tokens_per_sec", "tokens/s"),
        ("train_samples/s", "samples/s"),
    ],
)
def test_a_unit_in_the_name_will_do(tmp_path: Path, metric: str, unit: str) -> None:
    record = summary_of(tmp_path, {metric: 12.5}, {})["training"]
    assert record.metrics.throughput is not None
    assert record.metrics.throughput.unit == unit


@pytest.mark.parametrize(
    ("metric", "number", "unit", "why"),
    [
        ("train_throughput", 12.5, None, "train_throughput = 12.5 is not used: it has no unit"),
        ("train_perf_fps", 12.5, None, "train_perf_fps = 12.5 is not used: it has no unit"),
        (
            "train_throughput",
            12.5,
            "it/s",
            "train_throughput = 12.5 is not used: its unit it/s is no rate of work",
        ),
        (
            "train_throughput",
            12.5,
            "min",
            "train_throughput = 12.5 is not used: its unit min is no rate of work",
        ),
        ("train_throughput", 0, "images/s", "train_throughput = 0 is not used: it is not positive"),
        ("train_throughput", -3, "images/s", "train_throughput = -3 is not used: it is not positive"),
    ],
)
def test_a_throughput_that_is_none_is_named(
    tmp_path: Path, metric: str, number: float, unit: str | None, why: str
) -> None:
    record = summary_of(tmp_path, {metric: number}, {metric: unit} if unit else {})["training"]
    assert value(record) is None
    assert why in record.reasons
    assert record.metrics.not_measured["throughput"] == "the summary has no throughput with a unit"


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "1e999", "true", "null", '"1_000"', '"٣"', '"12 x"', "[1]"]
)
def test_values_that_are_no_numbers(tmp_path: Path, number: str) -> None:
    line = 'DLLL {"type": "LOG", "step": [], "data": {"train.img/s": ' + number + "}}\n"
    with pytest.raises(UnreadableInputError, match="no throughput, latency or quality that is known"):
        read(write(tmp_path, line))


def test_a_number_as_text_counts(tmp_path: Path) -> None:
    assert value(summary_of(tmp_path, {"train.img/s": "12.5"}, {})["training"]) == 12.5


def test_the_mean_is_the_headline_and_the_best_is_said(tmp_path: Path) -> None:
    data = {"best_train_throughput": 20.0, "mean_train_throughput": 18.0, "train_throughput_per_GPU": 9.0}
    record = summary_of(tmp_path, data, dict.fromkeys(data, "samples/s"))["training"]
    assert value(record) == 18.0
    assert "the figure is mean_train_throughput" in record.reasons
    assert "beside it: best_train_throughput = 20 samples/s" in record.reasons
    assert "train_throughput_per_GPU is not used: it is no throughput of the whole run" in record.reasons


def test_training_and_inference_in_one_summary_are_two_records(tmp_path: Path) -> None:
    data = {"train_throughput": 100.0, "eval_throughput": 300.0, "eval_latency_avg": 0.25, "eval_auc": 0.8}
    units = {"train_throughput": "samples/s", "eval_throughput": "samples/s", "eval_latency_avg": "s"}
    found = summary_of(tmp_path, data, units, train_batch_size=64, eval_batch_size=128)
    assert {scenario: value(record) for scenario, record in found.items()} == {
        "training": 100.0,
        "inference": 300.0,
    }
    assert {scenario: record.job.batch_size for scenario, record in found.items()} == {
        "training": 64,
        "inference": 128,
    }
    assert found["inference"].metrics.latency_ms is not None
    assert found["inference"].metrics.latency_ms.mean == 250.0
    assert found["training"].metrics.latency_ms is None
    assert [(q.metric, q.value) for q in found["training"].metrics.quality] == [("eval_auc", 0.8)]


@pytest.mark.parametrize(
    ("arguments", "metadata", "scenario"),
    [
        ({"mode": "benchmark-training"}, {}, "training"),
        ({"mode": "inference_benchmark"}, {}, "inference"),
        ({}, {"STAGE": "TEST"}, "inference"),
        ({}, {"STAGE": "TRAIN"}, "training"),
    ],
)
def test_where_the_name_does_not_say_it(
    tmp_path: Path, arguments: dict[str, str], metadata: dict[str, str], scenario: str
) -> None:
    log = Log().arguments(world_size=1, **arguments).metadata("throughput", "images/s", **metadata)
    found = records(tmp_path, log.summary({"throughput": 12.5}))
    assert {name: value(record) for name, record in found.items()} == {scenario: 12.5}


def test_a_throughput_of_nothing_said_is_named_and_not_used(tmp_path: Path) -> None:
    record = one(
        tmp_path, Log().metadata("throughput", "images/s").summary({"throughput": 12.5, "top1": 76.0})
    )
    assert value(record) is None
    assert "throughput = 12.5: of training or of inference is not said" in record.reasons


def test_latencies(tmp_path: Path) -> None:
    data = {
        "latency_avg": 0.01,
        "latency_p50": 9.5,
        "latency_95pct": 12.0,
        "latency_99": 13.0,
        "latency_99.9": 14.0,
        "latency_max": 1,
        "latency": 10.0,
    }
    units = dict.fromkeys(data, "ms") | {"latency_avg": "s"}
    del units["latency_max"]
    record = summary_of(tmp_path, data, units)["inference"]
    assert record.metrics.latency_ms is not None
    assert record.metrics.latency_ms.model_dump(exclude_none=True) == {
        "mean": 10.0,
        "p50": 9.5,
        "p95": 12.0,
        "p99": 13.0,
        "p99_9": 14.0,
    }
    assert "latency is not used: it does not say which statistic it is" in record.reasons
    assert "latency_max is not used: its unit is not given" in record.reasons


def test_latencies_of_several_things_are_not_one(tmp_path: Path) -> None:
    data = {"batch_1_mean_latency": 1.0, "batch_64_mean_latency": 2.0}
    record = summary_of(tmp_path, data, dict.fromkeys(data, "ms"))["inference"]
    assert record.metrics.latency_ms is None
    assert any(reason.startswith("the latencies are of several things") for reason in record.reasons)


def test_what_differs_in_several_summaries_is_no_result(tmp_path: Path) -> None:
    log = training()
    log.lines += log.lines[-1:]
    assert value(one(tmp_path, log)) == 751.25  # the same again
    record = one(tmp_path, log.summary({"train.total_ips": 100.0, "val.top1": 76.0}))
    assert value(record) is None
    assert (
        "train.total_ips is not used: the log gives it several times, with different values" in record.reasons
    )


@pytest.mark.parametrize(
    ("arguments", "network"),
    [
        ({"arch": "resnet50"}, "resnet50-v1.5"),
        ({"arch": "se-resnext101-32x4d"}, "se-resnext101-32x4d"),
        ({"model_name": "WaveGlow"}, "waveglow"),
        ({"bert_model": "bert-large-uncased"}, "not-named:log.json"),
        ({"model": "efficientdet_d0"}, "efficientdet_d0"),
        ({"model": "/checkpoints/a.pt"}, "not-named:log.json"),
        ({"backbone": "resnet50"}, "not-named:log.json"),
        ({"arch": "a\ud800"}, "not-named:log.json"),
    ],
)
def test_the_network_is_what_the_arguments_say(
    tmp_path: Path, arguments: dict[str, str], network: str
) -> None:
    record = summary_of(tmp_path, {"train.img/s": 12.5}, {}, **arguments)["training"]
    assert record.job.network == network
    assert ("the log's arguments do not name the network" in record.reasons) == network.startswith(
        "not-named"
    )


@pytest.mark.parametrize(
    ("arguments", "precision"),
    [
        ({"amp": True}, "fp16"),
        ({"fp16": "True", "amp": False}, "fp16"),
        ({"amp": True, "bf16": True}, "bf16"),
        ({"precision": "amp"}, "fp16"),
        ({"precision": "bf16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"tf32": True}, "tf32"),
        ({"precision": "fp32"}, None),
        ({"precision": "fp32", "tf32": False}, "fp32"),
        ({"amp": True, "precision": "bf16"}, None),
        ({"precision": "amp and more"}, None),
        ({"amp": False}, None),
        ({}, None),
    ],
)
def test_precisions(tmp_path: Path, arguments: dict[str, Any], precision: str | None) -> None:
    record = summary_of(tmp_path, {"train.img/s": 12.5}, {}, **arguments)["training"]
    assert record.job.precision == precision


def test_a_batch_of_several_accelerators_is_each_ones_only_if_it_says_so(tmp_path: Path) -> None:
    log = Log().arguments(num_gpus=8, batch_size=512).summary({"train.img/s": 12.5})
    record = one(tmp_path, log)
    assert (record.job.accelerators, record.job.batch_size) == (8, None)
    assert any("on all together is not said" in reason for reason in record.reasons)
    log = Log().arguments(world_size=16, num_nodes=2, batch_size_per_gpu=64).summary({"train.img/s": 12.5})
    record = one(tmp_path, log)
    assert (record.job.accelerators, record.job.nodes, record.job.batch_size) == (16, 2, 64)
    assert record.conditions == {}


def test_a_number_of_accelerators_that_is_not_said(tmp_path: Path) -> None:
    record = one(tmp_path, Log().arguments(batch_size=32).summary({"train.img/s": 12.5}))
    assert COUNT_NOT_SAID in record.reasons
    # As a condition, it keeps the figure from being compared with one of a known number.
    assert record.conditions == {"accelerators": "not said"}
    assert record.job.batch_size is None


def test_arguments_that_contradict_each_other(tmp_path: Path) -> None:
    log = Log().arguments(arch="resnet50", world_size=1, batch_size=32).arguments(batch_size=64, arch="vgg16")
    record = one(tmp_path, log.summary({"train.img/s": 12.5}))
    assert (record.job.network, record.job.batch_size) == ("not-named:log.json", None)


def test_two_spellings_of_one_network(tmp_path: Path) -> None:
    log = Log().arguments(model_name="WaveGlow").arguments(model_name="WaveGlow_PyT")
    assert one(tmp_path, log.summary({"train.img/s": 12.5})).job.network == "waveglow"


def test_versions_and_data(tmp_path: Path) -> None:
    log = Log().arguments(**{"--data-backend": "synthetic", "world_size": 1, "max_seq_length": 384})
    log.add(
        type="LOG", step="ENVIRONMENT", data={"NVIDIA_PYTORCH_VERSION": "21.04", "CUDA_VERSION": "11.3.0"}
    )
    record = one(tmp_path, log.summary({"train.img/s": 12.5}))
    assert (record.job.framework, record.job.data, record.job.sequence_length) == (
        "pytorch",
        "synthetic",
        384,
    )
    assert record.software.cuda == "11.3.0"


def test_a_run_without_a_summary_is_interrupted(tmp_path: Path) -> None:
    record = one(tmp_path, "".join(training().lines[:-1]))
    assert (record.status, value(record)) == (Status.INTERRUPTED, None)
    assert record.job.network == "resnet50-v1.5"
    assert "the log ends without a summary, after 4 lines of progress" in record.reasons


def test_a_summary_that_is_cut_off_is_none(tmp_path: Path) -> None:
    text = str(training())
    for cut in range(2, 60, 7):
        record = one(tmp_path, text[:-cut])
        assert (record.status, value(record)) == (Status.INTERRUPTED, None)
    assert value(one(tmp_path, text[:-1])) == 751.25


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", Status.OUT_OF_MEMORY),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", Status.OUT_OF_MEMORY),
        ("tensorflow.python.framework.errors_impl.InternalError: failed", Status.CRASHED),
    ],
)
def test_errors_printed_between_the_lines(tmp_path: Path, line: str, status: Status) -> None:
    record = one(tmp_path, "".join(training().lines[:-1]) + line + "\n")
    assert (record.status, value(record), record.reasons[1]) == (status, None, line)
    record = one(tmp_path, f"{training()}{line}\n")
    assert (record.status, value(record)) == (Status.OK, 751.25)
    assert f"there is an error in the log, besides its summary: {line}" in record.reasons


def test_failures() -> None:
    assert failure(b"an out-of-memory (OOM) error may occur\n") is None
    assert failure(b"loss_error: 0.5, Errors: none\n") is None
    found = failure(b"0: ValueError: no\xff\n")
    assert found is not None
    assert (found.text, found.out_of_memory) == ("ValueError: no\N{REPLACEMENT CHARACTER}", False)


def test_lines_after_the_summary_are_said(tmp_path: Path) -> None:
    record = one(tmp_path, training().step(5, 1, **{"train.loss": 1.0}))
    assert value(record) == 751.25
    assert "1 lines follow the last summary" in record.reasons


def test_a_second_run_in_the_file_has_no_duration(tmp_path: Path) -> None:
    record = one(tmp_path, training().lines[-1] + training().lines[0])
    assert record.duration_s is None


def test_prefixes_and_damaged_lines(tmp_path: Path) -> None:
    lines = [f"[1,0]<stdout>: {line}" for line in training().lines]
    lines.insert(3, 'DLLL {"type": "LOG", "step": [], "data": {"train.total_ips": 999\n')
    lines.insert(4, 'DLLL {"type": "LOG", "step": [], "data": {"val.top1": ' + "9" * 5000 + "}}\n")
    lines.insert(5, 'DLLL {"type": "LOG", "step": [], "data": ' + "[" * 100_000 + "\n")
    found, summary = read(write(tmp_path, "".join(lines)))
    assert [value(record) for record in found] == [751.25]
    assert [(note.line, note.why) for note in summary.notes] == [(4, "the line is damaged and was not read")]


PRINTED = """\
=> creating model
DLL 2021-07-13 04:29:09.416046 - PARAMETER arch : resnet50  batch_size : 448  fp16 : True  world_size : 1
DLL 2021-07-13 04:29:18.298959 - Epoch: 0 Iteration: 1  train.loss : 7.08984  train.total_ips : 449.31 img/s
DLL 2021-07-13 04:31:13.549860 - Summary: train.loss : 6.33887  train.total_ips : 6203.51 img/s
DLL 2021-07-13 04:31:13.549995 - Summary: lr : 0.1  train.compute_ips : 6205.78 img/s train.data_time : 0.1 s
"""


def test_what_the_program_prints(tmp_path: Path) -> None:
    record = one(tmp_path, PRINTED)
    assert record.metrics.throughput is not None
    assert (record.metrics.throughput.value, record.metrics.throughput.unit) == (6203.51, "images/s")
    assert (record.job.network, record.job.batch_size, record.job.precision) == ("resnet50-v1.5", 448, "fp16")
    assert record.started_at is None  # the local time, in a zone that it does not say
    assert record.duration_s == pytest.approx(124.133949, abs=1e-5)
    assert record.origin is not None
    assert record.origin.line == 4


@pytest.mark.parametrize("step", ["()", "[]", "Summary:", ""])
def test_how_printed_summaries_begin(tmp_path: Path, step: str) -> None:
    line = (
        f"DLL 2021-07-13 04:31:13.5 - {step} e2e_time : 421.26  avg_img/sec : 214.5  med_img/sec : 214.6 \n"
    )
    line = line.replace("13.5", "13.500000") + "DLL 2021-99-13 04:31:13 - (0,) time : 3\n"
    parameters = "DLL 2021-07-13 04:29:09.416046 - PARAMETER mode : benchmark-training  gpu_count : 1 \n"
    record = one(tmp_path, parameters + line)
    assert (value(record), record.job.scenario, record.duration_s) == (214.5, "training", None)


def test_a_printed_line_that_is_cut_off_is_not_read(tmp_path: Path) -> None:
    for cut in range(len(PRINTED) - len(PRINTED.splitlines()[-1]) - 2, 200, -5):
        record = one(tmp_path, PRINTED[:cut])
        assert (record.status, value(record)) == (Status.INTERRUPTED, None)


def test_json_counts_where_a_file_has_both(tmp_path: Path) -> None:
    assert value(one(tmp_path, PRINTED + str(training()))) == 751.25


def test_folders(tmp_path: Path) -> None:
    write(tmp_path, training(), "a/log.json")
    write(tmp_path, PRINTED, "b/out.txt")
    write(tmp_path, "nothing\n", "b/other.log")
    write(tmp_path, training(), ".hidden/log.json")
    write(tmp_path, training(), "a/log.csv")
    write(tmp_path, Log().summary({"loss": 1.0}), "c.log")
    found, summary = read(tmp_path)
    assert [record.id for record in found] == ["dllogger/a/log.json/training", "dllogger/b/out.txt/training"]
    assert {(skipped.file, skipped.why) for skipped in summary.skipped} == {
        ("b/other.log", NO_LINES),
        ("c.log", NOTHING_KNOWN),
    }
    assert summary.records == 2


def test_nothing_recognised_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read(tmp_path / "absent")
    for content in (b"", b"\x00\xff", b"DLL\nDLLL\nDLL 2021\n", str(training()).encode("utf-16")):
        with pytest.raises(UnreadableInputError, match="holds no result of DLLogger's") as raised:
            read(write(tmp_path, content))
        assert "\n" not in str(raised.value)
    with pytest.raises(UnreadableInputError, match="holds no result of DLLogger's"):
        read(write(tmp_path, "x", "folder/x.csv").parent)


def test_names_that_are_no_utf8_or_very_long(tmp_path: Path) -> None:
    write(tmp_path, Log().summary({"train.img/s": 12.5}), "/".join(["a" * 100, "b" * 100, "\udcff.json"]))
    (record,) = read(tmp_path)[0]
    assert len(record.id) < 100
    assert Record.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("form", ["json", "printed"])
def test_a_long_log_is_read_in_constant_memory(tmp_path: Path, form: str) -> None:
    log = str(training()) if form == "json" else PRINTED
    lines = log.splitlines(keepends=True)
    step = lines[4 if form == "json" else 2][:-1] + " " * 400 + "\n"
    file = write(tmp_path, lines[0] + step * 40_000 + "x" * 10_000_000 + "\n" + log)
    tracemalloc.start()
    (record,) = read(file)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value(record) in (751.25, 6203.51)
    assert peak < 20_000_000


GARBAGE = [
    b"\xff\xfe\x00",
    b"\n",
    b"DLLL {",
    b"DLLL {}\n",
    b'DLLL {"step": []}\n',
    b"DLL 2021-07-13 04:31:13 - \n",
]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_logs_raise_nothing_else_and_give_no_figure_that_is_not_there(data: st.DataObject) -> None:
    log, truth = data.draw(st.sampled_from([(str(training()), 751.25), (PRINTED, 6203.51)]), "log")
    raw = damaged(data, log, GARBAGE)
    with tempfile.TemporaryDirectory() as name:
        try:
            records, _ = read(write(Path(name), raw))
        except UnreadableInputError:
            return
    for record in records:
        assert Record.model_validate_json(record.model_dump_json()) == record
        assert value(record) in (None, truth)
        if record.status is not Status.OK:
            assert value(record) is None
        if record.duration_s is not None:
            assert record.duration_s <= 125


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.one_of(st.text(max_size=30), st.sampled_from(["train_throughput", "latency_p99", "val.top1"])),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
        ),
        max_size=6,
    )
)
def test_any_json_is_taken(data: dict[str, Any]) -> None:
    log = Log().add(type="LOG", step="PARAMETER", data=data).add(type="METADATA", metric=data, metadata=data)
    log.metadata("train_throughput", "images/s").metadata("latency_p99", "s")
    with tempfile.TemporaryDirectory() as name:
        try:
            records, _ = read(write(Path(name), log.summary(data)))
        except UnreadableInputError:
            return
    for record in records:
        assert Record.model_validate_json(record.model_dump_json()) == record


@needs_logs
def test_what_lambdas_logs_print() -> None:
    """Nothing of one rank passes for the whole: SSD prints a summary for each, Mask R-CNN no unit."""
    found = {record.origin.file: record for record in read(LAMBDA)[0] if record.origin and record.origin.file}
    assert len(found) == 30
    figures = {file: figure for file, record in found.items() if (figure := value(record)) is not None}
    assert {file.split("/")[1] for file in figures} == {
        "PyTorch_SSD_AMP",
        "PyTorch_SSD_FP32",
        "PyTorch_resnet50_FP16",
        "PyTorch_resnet50_FP32",
    }
    assert not any(file.startswith("8x") and "SSD" in file for file in figures)
    assert figures["8xA6000/PyTorch_resnet50_FP16/31-12-2020_18-21-33.txt"] == 6067.58
    assert figures["A6000/PyTorch_SSD_AMP/01-01-2021_11-36-33.txt"] == pytest.approx(230.0966, abs=1e-4)
