"""Sets of MLPerf training logs become time to train as the rules score it, or say why they have none."""

from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.errors import UnreadableInputError
from accelmark.importers.mlperf_training import (
    BENCHMARKS,
    CUT,
    DAMAGED,
    MIXED,
    NO_COUNT,
    NO_EVENT,
    NO_SYSTEM,
    NO_VERSION,
    OPEN,
    REPEATED,
    read,
)
from accelmark.importers.summary import Summary
from accelmark.published import nvidia_2021_04
from accelmark.record import Record, Source, Status

LOGS = Path(__file__).resolve().parents[3] / "shared" / "mlperf" / "training_v0.7"
needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason=f"MLPerf's training logs are not here ({LOGS})")

SYSTEM = "dgxa100_n2_ngc20.06_mxnet"
DESCRIPTION: dict[str, Any] = {
    "submitter": "Somebody",
    "division": "closed",
    "system_name": SYSTEM,
    "number_of_nodes": "2",
    "host_processors_per_node": "2",
    "host_processor_model_name": "AMD EPYC 7742",
    "accelerators_per_node": "8",
    "accelerator_model_name": "NVIDIA A100-SXM4-40GB (400W)",
    "framework": "MXNet NVIDIA Release 20.06",
    "other_software_stack": {
        "cuda_version": "11.0.167",
        "cuda_driver_version": "450.36.06",
        "cudnn_version": "8.0.1.13",
        "nccl_version": "2.7.5",
    },
    "operating_system": "Ubuntu 18.04.3 LTS",
}
START = 1_592_959_453_152
#: Minutes; the rules' score of these is the mean of 23, 24 and 25.
MINUTES = (24, 20, 25, 40, 23)


def event(key: str, value: Any = None, time: Any = START, **metadata: Any) -> str:
    kind = {"run_start": "INTERVAL_START", "run_stop": "INTERVAL_END"}.get(key, "POINT_IN_TIME")
    fields = {"namespace": "", "time_ms": time, "event_type": kind, "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**fields, "metadata": {"file": "train.py", "lineno": 7, **metadata}})


def log(minutes: float, offset: int = 0, benchmark: str = "resnet", status: str = "success") -> list[str]:
    """The lines of one run that starts `offset` milliseconds after `START`."""
    start = START + offset
    stop = start + round(minutes * 60_000)
    return [
        "+ echo 'Beginning trial 1 of 1'",
        event("submission_benchmark", benchmark, start - 9000),
        event("submission_org", "Somebody", start - 9000),
        event("submission_division", "closed", start - 9000),
        event("submission_platform", "2xNVIDIA DGX A100", start - 9000),
        event("global_batch_size", 3264, start - 5000),
        event("run_start", None, start),
        event("epoch_start", None, start, epoch_num=1),
        "Epoch 1, loss 6.9",
        event("eval_accuracy", 0.41, start + 60_000, epoch_num=1),
        event("eval_accuracy", 0.7612, stop - 50, epoch_num=2),
        event("run_stop", None, stop, status=status),
        "ENDING TIMING RUN",
    ]


def logs(minutes: tuple[float, ...] = MINUTES, **changes: Any) -> list[list[str]]:
    return [log(each, offset=index, **changes) for index, each in enumerate(minutes)]


def tree(
    path: Path,
    runs: list[list[str]] | list[bytes],
    benchmark: str = "resnet",
    description: Any = DESCRIPTION,
    root: str = "training_v0.7",
    system: str = SYSTEM,
) -> Path:
    """A root folder with one set, in the layout of the published results."""
    submitter = path / root / "Somebody"
    folder = submitter / "results" / system / benchmark
    folder.mkdir(parents=True)
    for index, run in enumerate(runs):
        content = run if isinstance(run, bytes) else "".join(f"{line}\n" for line in run).encode()
        (folder / f"result_{index}.txt").write_bytes(content)
    if description is not None:
        (submitter / "systems").mkdir(exist_ok=True)
        raw = description if isinstance(description, bytes) else json.dumps(description).encode()
        (submitter / "systems" / f"{system}.json").write_bytes(raw)
    return path / root


def one(path: Path) -> Record:
    records, _ = read(path)
    (record,) = records
    return record


def with_line(find: str, change: Callable[[str], str]) -> list[list[str]]:
    """The five runs, with the lines of the third changed that hold a text."""
    runs = logs()
    runs[2] = [change(line) if find in line else line for line in runs[2]]
    return runs


def test_a_set_becomes_a_record(tmp_path: Path) -> None:
    records, summary = read(tree(tmp_path, logs()))
    (record,) = records
    assert record.id == f"mlperf-training-0.7/Somebody/{SYSTEM}/resnet"
    assert (record.source, record.status, record.reasons) == (Source.IMPORTED, Status.OK, [])
    assert record.metrics.time_to_train_min == 24
    job = record.job
    assert (job.network, job.scenario, job.size) == ("resnet50-v1.5", "time-to-quality", "full")
    assert job.parameters == {"rules": "mlperf-training-0.7"}
    assert (job.framework, job.engine, job.precision, job.data) == ("mxnet", None, None, "ImageNet2012")
    assert (job.batch_size, job.accelerators, job.nodes) == (204, 16, 2)
    assert record.conditions == {"division": "closed"}
    (quality,) = record.metrics.quality
    assert (quality.metric, quality.value, quality.target) == ("top-1 accuracy, %", 76.12, 75.9)
    assert quality.reached
    set_folder = f"Somebody/results/{SYSTEM}/resnet"
    assert [(run.minutes, run.reason, run.file) for run in record.samples.runs] == [
        (minutes, None, f"{set_folder}/result_{index}.txt") for index, minutes in enumerate(MINUTES)
    ]
    assert (summary.records, summary.files) == (1, {set_folder: 1})
    assert summary.skipped == summary.notes == []


def test_the_system_and_its_software_are_those_of_the_description(tmp_path: Path) -> None:
    record = one(tree(tmp_path, logs()))
    assert record.system.name == SYSTEM
    assert (record.system.server, record.system.container) == ("DGX A100", None)
    assert record.system.os == "Ubuntu 18.04.3 LTS"
    accelerator = record.system.accelerator
    assert (accelerator.name, accelerator.kind, accelerator.count) == ("A100-SXM4-40GB", "cuda", 16)
    assert accelerator.driver == "450.36.06"
    assert record.system.cpu is not None
    assert (record.system.cpu.name, record.system.cpu.sockets) == ("AMD EPYC 7742", 2)
    software = record.software
    assert software.framework == "MXNet NVIDIA Release 20.06"
    assert (software.cuda, software.cudnn, software.nccl) == ("11.0.167", "8.0.1.13", "2.7.5")


def test_the_origin_is_the_line_where_the_first_run_stops(tmp_path: Path) -> None:
    origin = one(tree(tmp_path, logs())).origin
    assert origin is not None
    assert origin.file == f"Somebody/results/{SYSTEM}/resnet/result_0.txt"
    assert (origin.line, origin.row) == (12, logs()[0][11])
    assert origin.section == "Somebody, 2xNVIDIA DGX A100"


@pytest.mark.parametrize("below", ["", "Somebody", "Somebody/results", f"Somebody/results/{SYSTEM}/resnet"])
def test_any_folder_from_the_root_to_the_set_gives_the_same_record(tmp_path: Path, below: str) -> None:
    root = tree(tmp_path, logs())
    record = one(root / below)
    whole = one(root)
    assert (record.id, record.metrics, record.job) == (whole.id, whole.metrics, whole.job)
    assert read(root / below)[0] == [record]
    assert str(tmp_path) not in record.model_dump_json()


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, logs())
    monkeypatch.chdir(root / "Somebody")
    assert one(Path(".")).id == one(root).id


@given(order=st.permutations(range(5)))
@settings(max_examples=20, deadline=None)
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    runs = logs((24.013, 20.7, 25.1, 40.3, 23.37))
    with tempfile.TemporaryDirectory() as name:
        expected = one(tree(Path(name), runs)).metrics
    with tempfile.TemporaryDirectory() as name:
        assert one(tree(Path(name), [runs[index] for index in order])).metrics == expected


def test_runs_are_listed_by_number(tmp_path: Path) -> None:
    runs = logs(tuple(range(30, 40)), benchmark="minigo")
    record = one(tree(tmp_path, [*runs, log(90, offset=99, benchmark="minigo")], benchmark="minigo"))
    assert [run.minutes for run in record.samples.runs] == [*range(30, 40), 90]


def test_one_failed_run_counts_as_the_slowest(tmp_path: Path) -> None:
    runs = logs()
    runs[1] = log(20, offset=1, status="aborted")
    record = one(tree(tmp_path, runs))
    assert record.status is Status.OK
    # Of 24, 25, 40 and 23 only the fastest is dropped: the slowest run is the one that failed.
    assert record.metrics.time_to_train_min == pytest.approx((24 + 25 + 40) / 3)
    failed = record.samples.runs[1]
    assert (failed.minutes, failed.reason) == (None, "run_stop says aborted")
    assert record.reasons == [
        "result_1.txt: run_stop says aborted",
        "1 of 5 runs failed and counts as the slowest",
    ]


def test_two_failed_runs_make_the_set_invalid(tmp_path: Path) -> None:
    runs = logs()
    runs[1] = log(20, offset=1, status="aborted")
    runs[3] = log(40, offset=3, status="aborted")
    record = one(tree(tmp_path, runs))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert "2 of 5 runs failed; the rules allow one" in record.reasons
    assert [run.minutes for run in record.samples.runs] == [24, None, 25, None, 23]


@pytest.mark.parametrize(
    "stop",
    [
        lambda line: line.replace(', "status": "success"', ""),
        lambda line: line[: line.index('"metadata"')] + '"metadata": null}',
        lambda line: line.replace('"success"', "null"),
    ],
)
def test_a_run_that_does_not_say_that_it_succeeded_failed(tmp_path: Path, stop: Callable[[str], str]) -> None:
    record = one(tree(tmp_path, with_line("run_stop", stop)))
    assert record.samples.runs[2].reason == "run_stop does not say that the run succeeded"
    assert record.metrics.time_to_train_min == pytest.approx((24 + 40 + 23) / 3)


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_another_number_of_runs_than_the_rules_ask_for_has_no_score(tmp_path: Path, count: int) -> None:
    record = one(tree(tmp_path, logs(tuple(range(20, 20 + count)))))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert record.reasons == [f"has {count} of 5 runs"]
    assert len(record.samples.runs) == count


def test_a_copy_of_a_run_is_no_second_run(tmp_path: Path) -> None:
    runs = logs()
    records, summary = read(tree(tmp_path, [*runs[:4], runs[0]]))
    assert records[0].reasons == ["has 4 of 5 runs"]
    assert [(s.file.rpartition("/")[2], s.why, s.where) for s in summary.skipped] == [
        ("result_4.txt", REPEATED, "result_0.txt")
    ]


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (lambda lines: lines[:11], CUT),
        (lambda lines: [*lines[:11], lines[11][:-25]], CUT),
        (lambda lines: lines[:5], "the log ends before run_start"),
        (lambda _: [], "the log ends before run_start"),
        (lambda lines: lines[7:], "the log begins after run_start"),
    ],
)
def test_a_log_that_is_cut_off_interrupts_the_set(
    tmp_path: Path, cut: Callable[[list[str]], list[str]], why: str
) -> None:
    runs = logs()
    runs[2] = cut(runs[2])
    record = one(tree(tmp_path, runs))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INTERRUPTED, None)
    assert record.reasons == [f"result_2.txt: {why}"]
    assert [run.minutes for run in record.samples.runs] == [24, 20, None, 40, 23]
    assert record.samples.runs[2].reason == why


def test_a_log_may_end_right_after_run_stop(tmp_path: Path) -> None:
    runs = ["\n".join(lines[:12]).encode() for lines in logs()]
    assert one(tree(tmp_path, runs)).metrics.time_to_train_min == 24


def test_ranks_before_the_marker_and_lines_that_run_into_each_other(tmp_path: Path) -> None:
    runs = with_line(":::MLLOG", lambda line: f" 12: {line}")
    runs[1] = [" ".join(runs[1])]
    runs[0] = [line.replace(":::MLLOG", "0: 100%|####| :::MLLOG {:::MLLOG") + "0: more" for line in runs[0]]
    records, summary = read(tree(tmp_path, runs))
    assert records[0].metrics.time_to_train_min == 24
    assert [(note.line, note.why, note.where) for note in summary.notes] == [(2, DAMAGED, "9 in the file")]


def test_events_of_several_ranks_count_once(tmp_path: Path) -> None:
    runs = with_line("run_st", lambda line: "\n".join(f"{rank}: {line}" for rank in range(8)))
    # Clocks of other hosts: some milliseconds later.
    start, stop = START + 4, START + 4 + 23 * 60_000
    runs[4] = [
        *runs[4],
        event("run_start", None, start + 5),
        event("run_stop", None, stop + 5, status="success"),
    ]
    record = one(tree(tmp_path, runs))
    assert record.metrics.time_to_train_min == 24
    assert [run.minutes for run in record.samples.runs] == list(MINUTES)


def test_a_rank_that_failed_fails_the_run(tmp_path: Path) -> None:
    runs = with_line("run_stop", lambda line: f"{line}\n{line.replace('success', 'aborted')}")
    assert one(tree(tmp_path, runs)).samples.runs[2].reason == "run_stop says aborted"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (log(30, offset=90 * 60_000), "run_stop is not after run_start, or the log holds several runs"),
        (log(30, offset=1000), "run_start or run_stop is logged again at quite another time"),
    ],
)
def test_a_log_of_several_runs_has_no_time(tmp_path: Path, more: list[str], why: str) -> None:
    runs = logs()
    runs[2] += more
    record = one(tree(tmp_path, runs))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert (record.samples.runs[2].minutes, record.samples.runs[2].reason) == (None, why)


@pytest.mark.parametrize("kind", ["POINT_IN_TIME", "INTERVAL_START", "", "?"])
def test_the_event_type_of_run_stop_does_not_matter(tmp_path: Path, kind: str) -> None:
    runs = with_line("run_stop", lambda line: line.replace("INTERVAL_END", kind))
    assert one(tree(tmp_path, runs)).metrics.time_to_train_min == 24


def test_fields_that_are_missing_cost_nothing_that_stands_elsewhere(tmp_path: Path) -> None:
    runs = with_line(
        ":::MLLOG", lambda line: line.replace('"namespace": "", ', "").replace('"value": null, ', "")
    )
    runs[2] = [line for line in runs[2] if "submission" not in line and "batch" not in line]
    assert one(tree(tmp_path, runs)) == one(tree(tmp_path / "whole", logs()))


@pytest.mark.parametrize(
    "time", ["", "null", '"1592959453152"', "true", "-5", "0", "NaN", "1e999", "9" * 400]
)
@pytest.mark.parametrize("key", ["run_start", "run_stop"])
def test_a_time_that_is_missing_or_none_gives_no_figure(tmp_path: Path, key: str, time: str) -> None:
    def without_time(line: str) -> str:
        before, _, after = line.partition('"time_ms": ')
        return before + (f'"time_ms": {time}, ' if time else "") + after.partition(", ")[2]

    record = one(tree(tmp_path, with_line(f'"{key}"', without_time)))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert record.reasons == ["result_2.txt: run_start or run_stop has no time"]
    assert [run.minutes for run in record.samples.runs] == [24, 20, None, 40, 23]


def test_a_run_that_stops_before_it_starts_has_no_time(tmp_path: Path) -> None:
    runs = logs()
    runs[2] = log(-25, offset=2)
    record = one(tree(tmp_path, runs))
    assert (record.status, record.samples.runs[2].minutes) == (Status.INVALID, None)


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    runs = ["".join(f"{line}\n" for line in lines).encode() for lines in logs()]
    runs[0] = b"\xff\xfe\x80 caf\xe9\n" + runs[0]
    runs[1] = runs[1].replace(b"train.py", b"/home/andr\xe9/train.py")
    assert one(tree(tmp_path, runs)).metrics.time_to_train_min == 24


def test_a_damaged_status_is_no_failure(tmp_path: Path) -> None:
    runs = ["".join(f"{line}\n" for line in lines).encode() for lines in logs()]
    runs[2] = runs[2].replace(b'"success"', b'"succ\xffss"')
    runs[3] = runs[3].replace(b'"time_ms": 1592961853155', b'"time_ms": 159296\xff853155')
    record = one(tree(tmp_path, runs))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INTERRUPTED, None)
    assert record.reasons == ["result_2.txt: run_stop is damaged", f"result_3.txt: {CUT}"]


@pytest.mark.parametrize(
    "garbage",
    [
        b":::MLLOG",
        b":::MLLOG {",
        b':::MLLOG {"key": "run_stop"',
        b':::MLLOG {"key": 7}',
        b':::MLLOG {"key": "run_stop" ' + b"[" * 100_000,
        b':::MLLOG ["key": "run_stop"]',
        b':::MLLOG {"key": "eval_accuracy", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b':::MLLOG {"key": "eval_accuracy", "value": {"BBOX": "x", "SEGM": NaN}}',
        b':::MLLOG {"key": "eval_accuracy", "value": Infinity, "metadata": []}',
        b':::MLLOG {"key": "submission_org", "value": "\\ud800"}',
        b':::MLLOG {"key": "submission_org", "value": "' + b"x" * 500 + b'"}',
        b':::MLLOG {"key": "global_batch_size", "value": ' + b"9" * 5000 + b"}",
        b"\x00\x1b[31m" * 1000,
    ],
)
def test_garbage_costs_no_figure(tmp_path: Path, garbage: bytes) -> None:
    runs = ["".join(f"{line}\n" for line in lines).encode() + garbage for lines in logs()]
    assert one(tree(tmp_path, runs)).metrics.time_to_train_min == 24


def test_quality_is_what_every_run_reached(tmp_path: Path) -> None:
    runs = with_line("eval_accuracy", lambda line: line.replace("0.7612", "0.7593"))
    runs[3].reverse()
    (quality,) = one(tree(tmp_path, runs)).metrics.quality
    assert (quality.value, quality.reached) == (75.93, True)


def test_success_without_the_target_is_no_success(tmp_path: Path) -> None:
    runs = with_line("eval_accuracy", lambda line: line.replace("0.7612", "0.7589"))
    record = one(tree(tmp_path, runs))
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert record.reasons == [
        "result_2.txt: run_stop says success, but no evaluation reached top-1 accuracy 75.9 %"
    ]


@pytest.mark.parametrize("value", ["76.12", '"0.76"', "null", "true", "-0.1"])
def test_quality_in_units_that_are_not_clear_has_no_value(tmp_path: Path, value: str) -> None:
    runs = [[line.replace("0.7612", value).replace("0.41", value) for line in lines] for lines in logs()]
    record = one(tree(tmp_path, runs))
    (quality,) = record.metrics.quality
    assert (quality.value, quality.target, quality.reached) == (None, 75.9, None)
    assert record.metrics.time_to_train_min == 24


def test_the_two_qualities_of_mask_rcnn(tmp_path: Path) -> None:
    runs = [
        [line.replace("0.7612", '{"BBOX": 0.3779, "SEGM": 0.3428}') for line in lines]
        for lines in logs(benchmark="maskrcnn")
    ]
    record = one(tree(tmp_path, runs, benchmark="maskrcnn"))
    assert [(q.metric, q.value, q.target, q.reached) for q in record.metrics.quality] == [
        ("box AP", 0.3779, 0.377, True),
        ("mask AP", 0.3428, 0.339, True),
    ]


def test_the_target_of_bert_is_not_certain_at_the_largest_batches(tmp_path: Path) -> None:
    runs = [
        [line.replace("3264", "8192").replace("0.7612", "0.7070") for line in lines]
        for lines in logs(tuple(range(20, 30)), benchmark="bert")
    ]
    record = one(tree(tmp_path, runs, benchmark="bert"))
    assert (record.status, record.metrics.quality) == (Status.OK, [])
    assert record.job.parameters == {"rules": "mlperf-training-0.7", "task": "pre-training-mlperf"}


@pytest.mark.parametrize(
    ("batches", "expected", "why"),
    [
        (["3264"] * 5, 204, None),
        (["3265"] * 5, None, "batch size 3265 does not divide by 16 accelerators"),
        (["3264"] * 4 + ["1632"], None, "batch size not known: the logs give no single global_batch_size"),
        (["null"] * 5, None, "batch size not known: the logs give no single global_batch_size"),
        (["0"] * 5, None, "batch size not known: the logs give no single global_batch_size"),
    ],
)
def test_batch_sizes(tmp_path: Path, batches: list[str], expected: int | None, why: str | None) -> None:
    runs = [
        [line.replace("3264", batch) for line in lines] for batch, lines in zip(batches, logs(), strict=True)
    ]
    record = one(tree(tmp_path, runs))
    assert record.job.batch_size == expected
    assert record.reasons == ([why] if why else [])
    assert record.metrics.time_to_train_min == 24


@pytest.mark.parametrize(
    ("root", "rules"),
    [
        ("training_v0.7", "mlperf-training-0.7"),
        ("training_results_v0.7", "mlperf-training-0.7"),
        ("training_results_v0.7-master", "mlperf-training-0.7"),
        ("results", "mlperf-training"),
        ("training_v0.7.1", "mlperf-training"),
    ],
)
def test_the_version_of_the_rules_is_that_of_a_folder(tmp_path: Path, root: str, rules: str) -> None:
    record = one(tree(tmp_path, logs(), root=root))
    assert record.job.parameters["rules"] == rules
    assert record.reasons == ([] if rules.endswith("0.7") else [NO_VERSION])
    assert record.metrics.time_to_train_min == 24


@pytest.mark.parametrize(("benchmark", "root"), [("unet3d", "training_v0.7"), ("ssd", "training_v2.0")])
def test_a_benchmark_that_is_not_known_keeps_its_name_and_has_no_score(
    tmp_path: Path, benchmark: str, root: str
) -> None:
    record = one(tree(tmp_path, logs(benchmark=benchmark), benchmark=benchmark, root=root))
    assert (record.job.network, record.job.data, record.metrics.quality) == (benchmark, None, [])
    assert (record.status, record.metrics.time_to_train_min) == (Status.INVALID, None)
    assert record.reasons == [
        "not scored: how many runs the rules ask for is not known",
        f"what benchmark {benchmark} of the rules mlperf-training-{root[-3:]} trains is not known here",
    ]
    assert [run.minutes for run in record.samples.runs] == list(MINUTES)


def test_logs_that_do_not_name_the_benchmark_are_of_their_folders(tmp_path: Path) -> None:
    runs = [[line for line in lines if "submission_benchmark" not in line] for lines in logs()]
    assert one(tree(tmp_path, runs)).job.network == "resnet50-v1.5"


def test_logs_of_several_benchmarks_are_no_set(tmp_path: Path) -> None:
    runs = with_line("submission_benchmark", lambda line: line.replace("resnet", "ssd"))
    records, summary = read(tree(tmp_path, runs))
    assert (records, [skipped.why for skipped in summary.skipped]) == ([], [MIXED])
    both = with_line("submission_benchmark", lambda line: f"{line}\n{line.replace('resnet', 'ssd')}")
    assert read(tree(tmp_path / "both", both))[1].skipped[0].why == MIXED


def test_the_open_division_says_that_the_network_may_be_another(tmp_path: Path) -> None:
    runs = [[line.replace("closed", "open") for line in lines] for lines in logs()]
    record = one(tree(tmp_path, runs))
    assert (record.conditions, record.reasons) == ({"division": "open"}, [OPEN])


@pytest.mark.parametrize(
    ("description", "why"),
    [
        (None, NO_SYSTEM),
        (b"{", "the system's description is no JSON"),
        (b"\xff\xfe", "the system's description is no JSON"),
        (b"[" * 100_000, "the system's description is no JSON"),
        (b"[]", "the system's description is no JSON object"),
        ({**DESCRIPTION, "number_of_nodes": ""}, NO_COUNT),
        ({**DESCRIPTION, "accelerators_per_node": "0"}, NO_COUNT),
        ({**DESCRIPTION, "accelerators_per_node": "eight"}, NO_COUNT),
        ({**DESCRIPTION, "accelerators_per_node": True}, NO_COUNT),
        ({**DESCRIPTION, "accelerators_per_node": "٨"}, NO_COUNT),
        ({"submitter": "Somebody"}, NO_COUNT),
    ],
)
def test_without_the_number_of_accelerators_there_is_no_record(
    tmp_path: Path, description: Any, why: str
) -> None:
    records, summary = read(tree(tmp_path, logs(), description=description))
    assert (records, summary.records, summary.files) == ([], 0, {})
    assert [(s.file, s.why) for s in summary.skipped] == [(f"Somebody/results/{SYSTEM}/resnet", why)]


def test_a_description_with_little_in_it(tmp_path: Path) -> None:
    record = one(tree(tmp_path, logs(), description={"number_of_nodes": 2, "accelerators_per_node": 8}))
    assert (record.job.accelerators, record.job.framework, record.metrics.time_to_train_min) == (16, None, 24)
    assert (record.system.name, record.system.accelerator.name) == (SYSTEM, "unknown")
    assert (record.software.framework, record.software.cuda, record.system.cpu) == (None, None, None)


@pytest.mark.parametrize(
    ("printed", "framework"),
    [
        ("PyTorch NVIDIA Release 20.06", "pytorch"),
        ("TensorFlow", "tensorflow"),
        ("Merlin HugeCTR with NVIDIA DL Frameworks Release 20.06", "hugectr"),
        ("MindSpore 1.0", None),
        (7, None),
    ],
)
def test_frameworks(tmp_path: Path, printed: object, framework: str | None) -> None:
    record = one(tree(tmp_path, logs(), description={**DESCRIPTION, "framework": printed}))
    assert record.job.framework == framework


def test_several_sets_have_ids_of_their_own(tmp_path: Path) -> None:
    tree(tmp_path, logs())
    tree(tmp_path / "again", logs())
    tree(tmp_path, logs((30, 31, 32, 33, 34)), benchmark="x" * 200)
    records, _ = read(tmp_path)
    assert len({record.id for record in records}) == len(records) == 3
    assert all(len(record.id) <= 200 for record in records)
    assert read(tmp_path)[0] == records


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    root = tree(tmp_path, logs())
    folder = root / "Somebody" / "results" / SYSTEM / "resnet"
    os.rename(os.fsencode(folder), os.fsencode(folder.parent) + b"/resn\xe9t")
    record = one(root)
    assert record.id.endswith("/resn\N{REPLACEMENT CHARACTER}t")
    assert Record.model_validate_json(record.model_dump_json()) == record


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    root = tree(tmp_path, logs())
    folder = root / "Somebody" / "results" / SYSTEM
    (folder / "other").mkdir()
    (folder / "other" / "result_0.txt").write_text("no log\n")
    (folder / "resnet" / "README.md").write_text("no log\n")
    (folder / "resnet" / "result_4.txt").unlink()
    os.mkfifo(folder / "resnet" / "result_4.txt")
    records, summary = read(root)
    assert [(s.file, s.why) for s in summary.skipped] == [(f"Somebody/results/{SYSTEM}/other", NO_EVENT)]
    assert (records[0].status, records[0].reasons) == (Status.INVALID, ["result_4.txt: is no file"])


@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\n", b":::MLL 1571433686.379 run_start: {}\n"])
def test_nothing_recognised_is_one_clear_sentence(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        tree(tmp_path, [content])
    with pytest.raises(UnreadableInputError, match="holds no results of MLPerf training") as raised:
        read(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read(tmp_path / "absent")
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read(tmp_path / ("x" * 5000))
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableInputError, match="is not a folder"):
        read(tmp_path / "file")


def test_long_logs_are_read_in_constant_memory(tmp_path: Path) -> None:
    root = tree(tmp_path, logs())
    long = root / "Somebody" / "results" / SYSTEM / "resnet" / "result_1.txt"
    lines = [line.encode() + b"\n" for line in log(20, offset=1)]
    many = [*lines[:12] * 300, b"Iteration 100, loss 3.14, 1234.5 samples/s\n" * 2000]
    with long.open("wb") as file:
        file.write(b"x" * 8_000_000)
        file.write(b"\n")
        while file.tell() < 30_000_000:
            file.writelines(many)
    tracemalloc.start()
    try:
        record = one(root)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert record.metrics.time_to_train_min == 24
    assert peak < 20_000_000


FUZZED = logs((24.013, 20.7, 25.1, 40.3, 23.37))


def score(minutes: list[float], failed: int) -> float:
    ordered = sorted(minutes)
    kept = ordered[1:] if failed else ordered[1:-1]
    return sum(kept) / len(kept)


def imported(runs: list[bytes], description: bytes) -> tuple[list[Record], Summary]:
    with tempfile.TemporaryDirectory() as name:
        try:
            return read(tree(Path(name), runs, description=description))
        except UnreadableInputError:
            return [], Summary()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_lines_give_no_figure_that_was_not_logged(data: st.DataObject) -> None:
    aborted = data.draw(st.sets(st.integers(0, 4), max_size=2), "aborted")
    damaged = data.draw(st.sets(st.integers(0, 4), max_size=3), "damaged")
    runs = []
    for index, lines in enumerate(FUZZED):
        stop = "aborted" if index in aborted else "success"
        run = [line.replace("success", stop).encode() + b"\n" for line in lines]
        for _ in range(data.draw(st.integers(1, 3), "edits") if index in damaged else 0):
            place = data.draw(st.integers(0, len(run)), "place")
            edit = data.draw(
                st.sampled_from(["cut", "drop", "double", "garbage", "spoil", "halve", "shuffle"])
            )
            if edit == "cut":
                run = run[:place]
            elif edit == "drop":
                run[place : place + 1] = []
            elif edit == "double":
                run[place:place] = run[place : place + 1] * 2
            elif edit == "garbage":
                run[place:place] = [data.draw(st.binary(max_size=8)), b":::MLLOG {\xff\n"]
            elif edit == "shuffle":
                run = data.draw(st.permutations(run))
            elif place < len(run) and run[place]:
                at = data.draw(st.integers(0, len(run[place]) - 1), "at")
                line = run[place]
                run[place] = line[:at] if edit == "halve" else line[:at] + b"\xff" + line[at + 1 :]
        runs.append(b"".join(run))
    truth = [
        None if index in aborted else minutes
        for index, minutes in enumerate((24.013, 20.7, 25.1, 40.3, 23.37))
    ]
    for record in imported(runs, json.dumps(DESCRIPTION).encode())[0]:
        for run_sample in record.samples.runs:
            assert run_sample.file is not None
            expected = truth[int(run_sample.file[-5])]
            assert run_sample.minutes is None or run_sample.minutes == pytest.approx(expected, rel=1e-12)
        if record.status is Status.OK:
            whole = [minutes for minutes in truth if minutes is not None]
            assert len(aborted) <= 1
            assert record.metrics.time_to_train_min == pytest.approx(score(whole, len(aborted)), rel=1e-12)
        else:
            assert record.metrics.time_to_train_min is None


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_bytes_raise_anything_else(data: st.DataObject) -> None:
    def damaged(raw: bytearray) -> bytes:
        for _ in range(data.draw(st.integers(0, 6), "edits")):
            place = data.draw(st.integers(0, len(raw)), "place")
            size = data.draw(st.integers(0, 40), "size")
            insert = st.one_of(
                st.binary(max_size=4),
                st.sampled_from(
                    [b":::MLLOG ", b"\n", b'"', b"{", b"}", b"null", b"[]", b"-", b"1e999", b"\\ud800"]
                ),
            )
            raw[place : place + size] = data.draw(insert, "insert")
        return bytes(raw)

    runs = [damaged(bytearray("\n".join(lines).encode())) for lines in FUZZED]
    description = bytearray(json.dumps(DESCRIPTION).encode())
    whole = data.draw(st.booleans(), "whole description")
    records, summary = imported(runs, bytes(description) if whole else damaged(description))
    assert summary.records == len(records)
    for record in records:
        assert (record.status is Status.OK) == (record.metrics.time_to_train_min is not None)
        assert Record.model_validate_json(record.model_dump_json()) == record


def published(record: Record) -> Record:
    """The row of NVIDIA's page of April 2021 that is of the same load on the same machines."""

    def load(of: Record) -> tuple[object, ...]:
        job, system = of.job, of.system
        return (
            (job.network, job.scenario, job.parameters, job.framework, job.data, job.accelerators, job.nodes),
            (system.accelerator.name, system.accelerator.count, system.server, of.conditions.get("division")),
            [(quality.metric, quality.target) for quality in of.metrics.quality],
        )

    (row,) = [row for row in nvidia_2021_04.read() if load(row) == load(record)]
    return row


@needs_logs
def test_every_real_set_is_the_published_row_to_the_last_printed_digit() -> None:
    records, summary = read(LOGS)
    assert {record.status for record in records} == {Status.OK}
    found = {
        (record.job.network, record.job.framework, record.job.accelerators): (
            round(record.metrics.time_to_train_min or 0, 2),
            published(record).metrics.time_to_train_min,
        )
        for record in records
    }
    assert found == {
        ("resnet50-v1.5", "mxnet", 8): (39.78, 39.78),
        ("resnet50-v1.5", "mxnet", 16): (23.75, 23.75),
        ("ssd300-resnet34", "mxnet", 64): (2.25, 2.25),
        ("ssd300-resnet34", "pytorch", 8): (10.21, 10.21),
        ("mask-rcnn-r50-fpn", "pytorch", 8): (82.16, 82.16),
        ("bert-large", "pytorch", 16): (30.63, 30.63),
        ("gnmt-v2", "pytorch", 8): (7.81, 7.81),
        ("transformer-big", "pytorch", 8): (7.84, 7.84),
        ("dlrm", "pytorch", 8): (4.43, 4.43),
        ("dlrm", "hugectr", 8): (3.33, 3.33),
        ("minigo", "tensorflow", 8): (299.73, 299.73),
        ("minigo", "tensorflow", 16): (165.72, 165.72),
    }
    assert summary.records == len(records) == 12
    assert summary.skipped == summary.notes == []


@needs_logs
def test_every_real_run_is_kept_and_one_failed() -> None:
    runs = {record.id: record.samples.runs for record in read(LOGS)[0]}
    assert sum(map(len, runs.values())) == 85
    for set_id, of in runs.items():
        assert len(of) == BENCHMARKS[set_id.rpartition("/")[2]].runs
    failed = [(set_id, run.reason) for set_id, of in runs.items() for run in of if run.minutes is None]
    assert failed == [
        ("mlperf-training-0.7/NVIDIA/dgxa100_n2_ngc20.06_pytorch/bert", "run_stop says aborted")
    ]


@needs_logs
def test_real_batches_are_per_accelerator() -> None:
    found = {(r.job.network, r.job.framework, r.job.accelerators): r.job.batch_size for r in read(LOGS)[0]}
    # The launchers' lines in the same logs say --train_batch_size=27 and MAX_TOKENS=13824.
    assert found["bert-large", "pytorch", 16] == 27
    assert found["transformer-big", "pytorch", 8] == 13824
    assert found["resnet50-v1.5", "mxnet", 8] == 408
    assert found["minigo", "tensorflow", 8] is None


@needs_logs
def test_every_real_quality_reached_its_target() -> None:
    for record in read(LOGS)[0]:
        assert record.metrics.quality
        assert all(quality.reached for quality in record.metrics.quality), record.id


@needs_logs
def test_one_real_set_alone_is_the_same() -> None:
    folder = LOGS / "NVIDIA" / "results" / "dgxa100_n2_ngc20.06_pytorch" / "bert"
    alone = one(folder)
    (same,) = [record for record in read(LOGS)[0] if record.id == alone.id]
    assert (alone.metrics, alone.job, alone.system) == (same.metrics, same.job, same.system)
