"""MLPerf inference results become Records with LoadGen's own figures, and nothing else becomes a figure."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
import tracemalloc
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.errors import UnreadableInputError
from accelmark.importers import loadgen, mlperf_inference, spl
from accelmark.importers.mlperf_inference import read
from accelmark.importers.summary import Summary
from accelmark.record import Record, Source, Status

SHARED = Path(__file__).resolve().parents[3] / "shared"
RESULTS = SHARED / "mlperf" / "inference_v1.0"
PUBLISHED = SHARED / "published"
needs_results = pytest.mark.skipif(
    not RESULTS.is_dir() or not PUBLISHED.is_dir(), reason=f"the MLPerf results are not here ({RESULTS})"
)

BAR = "================================================\n"
END = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"


def latencies(*values: int) -> str:
    names = ("Min", "Max", "Mean", "50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
    lines = []
    for name, value in zip(names, values, strict=True):
        label = f"{name} latency (ns)" if name[0] == "M" else f"{name} percentile latency (ns)"
        lines.append(f"{label:32}: {value}\n")
    return "".join(lines)


def log(scenario: str, result: str, statistics: str, settings: str, end: str = END) -> str:
    return (
        f"{BAR}MLPerf Results Summary\n{BAR}SUT name : BOX\nScenario : {scenario}\n"
        f"Mode     : PerformanceOnly\n{result}\n"
        f"{BAR}Additional Stats\n{BAR}{statistics}\n{BAR}Test Parameters Used\n{BAR}{settings}{end}"
    )


VALID = "Result is : VALID\n  Min duration satisfied : Yes\n  Min queries satisfied : Yes\n"
# 66,000 samples in 660 s.
OFFLINE = log(
    "Offline",
    f"Samples per second: 100\n{VALID}",
    latencies(
        20_000_000,
        660_000_000_000,
        330_000_000_000,
        330_000_000_000,
        594_000_000_000,
        627_000_000_000,
        640_000_000_000,
        653_000_000_000,
        659_000_000_000,
    ),
    "samples_per_query : 66000\ntarget_qps : 101\ntarget_latency (ns): 0\nmin_duration (ms): 600000\n",
)
IN_TIME = latencies(
    2_000_000, 30_000_000, 9_000_000, 8_000_000, 12_000_000, 13_000_000, 13_500_000, 14_000_000, 16_000_000
)
SERVER_SETTINGS = "samples_per_query : 1\ntarget_qps : 900\ntarget_latency (ns): 15000000\n"
SERVER = log(
    "Server",
    "Scheduled samples per second : 899.87\nResult is : VALID\n  Performance constraints satisfied : Yes\n"
    "  Min duration satisfied : Yes\n  Min queries satisfied : Yes\n",
    f"Completed samples per second    : 899.52\n\n{IN_TIME}",
    SERVER_SETTINGS,
)
# Where tokens are counted (v4.1 on) the completed rate is the result and the scheduled one is additional.
SERVER_COMPLETED = log(
    "Server",
    "Completed samples per second    : 12.50\nResult is : VALID\n  Performance constraints satisfied : Yes\n"
    "  Min duration satisfied : Yes\n  Min queries satisfied : Skipped\n  Early stopping satisfied: Yes\n"
    "TTFT Early Stopping Result:\n * Run successful.\n",
    f"Scheduled samples per second : 12.61\n\n{IN_TIME}\nMean First Token latency (ns)   : 5\n",
    SERVER_SETTINGS,
)
SINGLE_STREAM = log(
    "SingleStream",
    "90th percentile latency (ns) : 12000000\nResult is : VALID\n  Min duration satisfied : Yes\n"
    "  Min queries satisfied : Yes\n  Early stopping satisfied: Yes\nEarly Stopping Result:\n"
    " * Processed at least 64 queries (1000).\n * Early stopping 90th percentile estimate: 12500000\n",
    f"QPS w/ loadgen overhead         : 110.02\nQPS w/o loadgen overhead        : 111.11\n\n{IN_TIME}",
    SERVER_SETTINGS,
)
# Until v1.0: how many samples at a time are answered in time; the latencies of queries, then of samples.
MULTI_STREAM = log(
    "MultiStream",
    "Samples per query : 1920\nResult is : VALID\n  Performance constraints satisfied : Yes\n"
    "  Min duration satisfied : Yes\n  Min queries satisfied : Yes\n",
    f"Per-query latency:  \n{IN_TIME}\nPer-sample latency:  \n{IN_TIME.replace('12000000', '11000000')}",
    "samples_per_query : 1920\ntarget_latency (ns): 50000000\n",
)
MULTI_STREAM_LATENCY = log(
    "MultiStream",
    f"99th percentile latency (ns) : 14000000\n{VALID}  Early stopping satisfied: Yes\n",
    f"Per-query latency:  \n{IN_TIME}",
    "samples_per_query : 8\ntarget_latency (ns): 0\n",
)


def entry(key: str, value: object) -> str:
    metadata = {
        "is_error": False,
        "is_warning": False,
        "file": "loadgen.cc",
        "line_no": 455,
        "pid": 1,
        "tid": 1,
    }
    return ":::MLLOG " + json.dumps(
        {"key": key, "value": value, "time_ms": 0.5, "event_type": "POINT_IN_TIME", "metadata": metadata}
    )


DETAIL = "\n".join(
    [
        entry("loadgen_version", ".5a1 @ 6958607d52"),
        entry("generic_message", "Starting performance mode"),
        entry("power_begin", "12-31-2020 23:59:50.500"),
        entry("power_end", "01-01-2021 00:00:10.500"),
        entry("result_validity", "VALID"),
        "",
    ]
)


def sample(second: int, watts: float | str) -> str:
    """One line of a power log, so many seconds after 31 December 2020, 23:59:00."""
    day, minute = ("12-31-2020", "23:59") if second < 60 else ("01-01-2021", "00:00")
    shown = watts if isinstance(watts, str) else f"{watts:.6f}"
    return f"Time,{day} {minute}:{second % 60:02}.000,Watts,{shown},Volts,206.7,Amps,2.1,PF,0.95,Mark,x\n"


# Idle at 400 W; 1,001 to 1,020 W in the measured period, seconds 51 to 70.
POWER = "".join(sample(second, 950 + second if 51 <= second <= 70 else 400) for second in range(30, 90))
WATTS = 1010.5

SYSTEM: dict[str, Any] = {
    "accelerator_memory_capacity": "80 GB",
    "accelerator_model_name": "NVIDIA A100-SXM-80GB",
    "accelerators_per_node": 8,
    "division": "closed",
    "framework": "TensorRT 7.2.3, CUDA 11.1",
    "host_memory_capacity": "2 TB",
    "host_processor_model_name": "AMD EPYC 7742",
    "host_processors_per_node": 2,
    "number_of_nodes": 1,
    "operating_system": "Ubuntu 18.04.4",
    "other_software_stack": "TensorRT 7.2.3, CUDA 11.1, cuDNN 8.1.1, Driver 460.32.03, DALI 0.30.0",
    "status": "available",
    "system_name": "NVIDIA DGX-A100 (8x A100-SXM-80GB, TensorRT)",
}
ACCURACY = "accuracy=76.030%, good=38015, total=50000\nhash=bedc51e5aa30d39f\n"


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def tree(
    root: Path,
    summary: str | bytes = OFFLINE,
    *,
    benchmark: str = "resnet50",
    scenario: str = "Offline",
    box: str = "BOX",
    run: str = "run_1",
    detail: str | bytes | None = None,
    power: str | bytes | None = None,
    accuracy: str | bytes | None = ACCURACY,
    system: object = SYSTEM,
    top: str = "inference_v1.0/closed/ACME",
) -> Path:
    """A results tree with one more run; returns the run's folder."""
    place = root / top / "results" / box / benchmark / scenario
    folder = place / "performance" / run
    put(folder / "mlperf_log_summary.txt", summary)
    for name, content in (("mlperf_log_detail.txt", detail), ("spl.txt", power)):
        if content is not None:
            put(folder / name, content)
    if accuracy is not None:
        put(place / "accuracy" / "accuracy.txt", accuracy)
        put(place / "accuracy" / "mlperf_log_summary.txt", END)
    if system is not None:
        put(root / top / "systems" / f"{box}.json", json.dumps(system))
    return folder


def only(root: Path) -> Record:
    (record,) = read(root)[0]
    return record


def refused(root: Path) -> str:
    with pytest.raises(UnreadableInputError) as raised:
        read(root)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def rate(record: Record) -> float:
    assert record.metrics.throughput is not None
    return record.metrics.throughput.value


def test_a_run_becomes_a_record(tmp_path: Path) -> None:
    tree(tmp_path)
    records, summary = read(tmp_path)
    (record,) = records
    assert record.id == "mlperf-inference-1.0/closed/ACME/BOX/resnet50/Offline/run_1"
    assert (record.source, record.status, record.reasons) == (Source.IMPORTED, Status.OK, [])
    job = record.job
    assert (job.network, job.scenario, job.engine, job.framework) == (
        "resnet50-v1.5",
        "offline",
        "tensorrt",
        None,
    )
    assert (job.accelerators, job.nodes, job.partition, job.precision) == (8, 1, None, None)
    assert (job.batch_size, job.data, job.parameters) == (
        None,
        "ImageNet2012",
        {"rules": "mlperf-inference-1.0"},
    )
    assert (rate(record), record.metrics.throughput.unit) == (100.0, "samples/s")  # type: ignore[union-attr]
    latency = record.metrics.latency_ms
    assert latency is not None
    assert (latency.min, latency.mean, latency.p50, latency.p99_9, latency.max, latency.n) == (
        20.0,
        330_000.0,
        330_000.0,
        659_000.0,
        660_000.0,
        66_000,
    )
    (quality,) = record.metrics.quality
    assert (quality.metric, quality.value, quality.target) == ("top-1 accuracy, %", 76.03, None)
    assert (record.metrics.power_w, record.metrics.power_basis, record.metrics.efficiency) == (
        None,
        None,
        None,
    )
    assert record.conditions == {"division": "closed", "preview": False, "power_run": False}
    system = record.system
    assert (system.name, system.server, system.os) == ("A100-SXM4-80GB", "DGX A100", "Ubuntu 18.04.4")
    assert (system.accelerator.kind, system.accelerator.count, system.accelerator.driver) == (
        "cuda",
        8,
        "460.32.03",
    )
    # Whether "80 GB" are 80e9 bytes or 80 GiB is not said.
    assert (system.accelerator.memory_gib, system.memory_gib) == (None, None)
    software = record.software
    assert (software.engine, software.cuda, software.cudnn) == ("TensorRT 7.2.3, CUDA 11.1", "11.1", "8.1.1")
    assert record.origin is not None
    assert record.origin.file == (
        "inference_v1.0/closed/ACME/results/BOX/resnet50/Offline/performance/run_1/mlperf_log_summary.txt"
    )
    assert (record.origin.line, record.origin.row) == (7, "Samples per second: 100")
    assert summary.records == summary.files[record.origin.file] == 1
    assert (summary.skipped, summary.notes) == ([], [])


def test_any_level_of_the_tree_gives_the_same_records(tmp_path: Path) -> None:
    run = tree(tmp_path, detail=DETAIL, power=POWER)
    whole = only(tmp_path)
    for folder in [run, *run.parents[:9]]:
        record = only(folder)
        assert record.replace(origin=None) == whole.replace(origin=None)
        assert record.origin is not None
        assert (folder.resolve() / str(record.origin.file)).is_file()
    assert read(tmp_path) == read(tmp_path)


def test_wordings_of_the_server_scenario(tmp_path: Path) -> None:
    scheduled = only(tree(tmp_path / "a", SERVER, scenario="Server"))
    assert (rate(scheduled), scheduled.metrics.throughput.unit) == (899.87, "queries/s")  # type: ignore[union-attr]
    assert scheduled.job.parameters["latency_bound_ms"] == 15
    assert isinstance(scheduled.job.parameters["latency_bound_ms"], int)
    assert scheduled.metrics.latency_ms is not None
    assert (scheduled.metrics.latency_ms.p99, scheduled.metrics.latency_ms.n) == (14.0, None)
    completed = only(tree(tmp_path / "b", SERVER_COMPLETED, scenario="Server"))
    assert (rate(completed), completed.status) == (12.5, Status.OK)
    odd = SERVER.replace("(ns): 15000000", "(ns): 1500000")
    assert only(tree(tmp_path / "c", odd, scenario="Server")).job.parameters["latency_bound_ms"] == 1.5
    both = SERVER.replace("Result is", "Completed samples per second : 899.52\nResult is")
    assert "two headline figures" in refused(tree(tmp_path / "d", both, scenario="Server"))


@pytest.mark.parametrize("wording", ["90th percentile latency (ns) : ", "90.00 percentile latency (ns) : "])
def test_single_stream_is_a_latency(tmp_path: Path, wording: str) -> None:
    summary = SINGLE_STREAM.replace("90th percentile latency (ns) : ", wording, 1)
    record = only(tree(tmp_path, summary, scenario="SingleStream"))
    assert (record.job.scenario, record.metrics.throughput, record.status) == (
        "single-stream",
        None,
        Status.OK,
    )
    assert record.metrics.latency_ms is not None
    assert (record.metrics.latency_ms.p90, record.metrics.latency_ms.mean) == (12.0, 9.0)
    assert record.origin is not None
    assert record.origin.row == f"{wording}12000000"


def test_multi_stream_says_which_of_its_meanings(tmp_path: Path) -> None:
    streams = only(tree(tmp_path / "a", MULTI_STREAM, scenario="MultiStream"))
    assert streams.job.scenario == "multi-stream"
    assert streams.job.parameters["multi_stream"] == "samples per query"
    assert (streams.job.parameters["streams"], streams.metrics.throughput) == (1920, None)
    assert streams.metrics.latency_ms is not None
    assert streams.metrics.latency_ms.p90 == 12.0  # of queries; samples have 11 ms
    latency = only(tree(tmp_path / "b", MULTI_STREAM_LATENCY, scenario="multistream"))
    assert latency.job.parameters["multi_stream"] == "latency"
    assert "streams" not in latency.job.parameters
    assert latency.metrics.latency_ms is not None
    assert (latency.metrics.latency_ms.p99, latency.metrics.throughput) == (14.0, None)
    unknown = MULTI_STREAM.replace("Samples per query :", "Streams in flight :")
    assert "wording" in refused(tree(tmp_path / "c", unknown, scenario="MultiStream"))


def test_an_invalid_result_keeps_its_figure_and_says_why(tmp_path: Path) -> None:
    summary = SERVER.replace("VALID", "INVALID").replace(
        "constraints satisfied : Yes", "constraints satisfied : NO"
    )
    summary = summary.replace(
        "queries satisfied : Yes\n",
        "queries satisfied : Yes\n  Early stopping satisfied: NO\nRecommendations:\n"
        " * Reduce target QPS to improve latency.\n"
        " * The test exited early, before enough queries were issued.\n"
        "   See the detailed log for why this may have occurred.\n"
        "Early Stopping Result:\n * Run unsuccessful.\n",
    )
    record = only(tree(tmp_path, summary, scenario="Server"))
    assert (record.status, rate(record)) == (Status.INVALID, 899.87)
    assert record.reasons == [
        "Performance constraints satisfied: NO",
        "Early stopping satisfied: NO",
        "Reduce target QPS to improve latency.",
        "The test exited early, before enough queries were issued.",
        "See the detailed log for why this may have occurred.",
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("is : VALID", "is : INVALID", "LoadGen calls the result INVALID and gives no reason"),
        ("duration satisfied : Yes", "duration satisfied : NO", "Min duration satisfied: NO"),
        ("No errors", "1 ERROR", "errors counted by LoadGen: 1"),
        ("No errors encountered", "3 ERRORS encountered", "errors counted by LoadGen: 3"),
    ],
)
def test_what_makes_a_result_invalid(tmp_path: Path, old: str, new: str, reason: str) -> None:
    record = only(tree(tmp_path, OFFLINE.replace(old, new)))
    assert (record.status, record.reasons) == (Status.INVALID, [reason])


def test_skipped_conditions_are_no_failure(tmp_path: Path) -> None:
    summary = OFFLINE.replace("queries satisfied : Yes", "queries satisfied : Skipped")
    assert only(tree(tmp_path, summary)).status is Status.OK


@pytest.mark.parametrize(
    "cut", ["Result is", "Samples per second: 10", "errors encountered", "Additional Stats"]
)
def test_a_summary_that_is_cut_off_is_interrupted_and_has_no_figure(tmp_path: Path, cut: str) -> None:
    record = only(tree(tmp_path, OFFLINE[: OFFLINE.index(cut) + 5]))
    assert (record.status, record.reasons) == (Status.INTERRUPTED, [mlperf_inference.CUT_OFF])
    assert record.metrics.throughput is None
    assert record.metrics.latency_ms is None
    assert record.job.scenario == "offline"


def test_every_cut_of_a_server_summary(tmp_path: Path) -> None:
    run = tree(tmp_path, SERVER, scenario="Server")
    start = SERVER.index("MLPerf Results Summary") + len("MLPerf Results Summary")
    for length in range(start, len(SERVER), 7):
        put(run / "mlperf_log_summary.txt", SERVER[:length])
        record = only(tmp_path)
        if record.status is Status.OK:
            assert SERVER[length:].strip() in ("", "during test.", "test.") or length > len(SERVER) - 20
            assert (rate(record), record.job.parameters["latency_bound_ms"]) == (899.87, 15)
        else:
            assert record.status is Status.INTERRUPTED
            assert record.metrics.throughput is None
            assert record.job.parameters == {"rules": "mlperf-inference-1.0"}


def test_a_summary_without_its_middle_is_interrupted(tmp_path: Path) -> None:
    record = only(tree(tmp_path / "a", OFFLINE.replace("Result is : VALID\n", "")))
    assert (record.status, record.reasons) == (Status.INTERRUPTED, [mlperf_inference.NO_VERDICT])
    record = only(tree(tmp_path / "b", OFFLINE.replace("Additional Stats\n", "")))
    assert (record.status, record.reasons) == (Status.INTERRUPTED, [mlperf_inference.CUT_OFF])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("second: 100", "second: nan", "no positive number"),
        ("second: 100", "second: inf", "no positive number"),
        ("second: 100", "second: -100", "no positive number"),
        ("second: 100", "second: 0", "no positive number"),
        ("second: 100", "second: 1_00", "no positive number"),
        ("second: 100", "second: ١٠٠", "no positive number"),
        ("second: 100", "second: 1e+999", "no positive number"),
        ("second: 100", "second:", "no positive number"),
        ("second: 100", "second: 10", "not samples_per_query over the longest latency"),
        ("second: 100", "second: 100\nSamples per second: 101", "twice"),
        ("Samples per second", "Samples per minute", "wording"),
        ("is : VALID", "is : VALID\nResult is : INVALID", "twice"),
        ("PerformanceOnly", "AccuracyOnly", "PerformanceOnly"),
        ("PerformanceOnly", "Perf", "PerformanceOnly"),
        ("Scenario : Offline", "Scenario : Interactive", "no scenario"),
        ("MLPerf Results Summary", "Results", "no summary of LoadGen's"),
    ],
)
def test_a_result_that_is_not_certain_gives_no_record(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert why in refused(tree(tmp_path, OFFLINE.replace(old, new, 1)))


def test_rates_in_powers_of_ten(tmp_path: Path) -> None:
    # LoadGen prints six significant digits, in powers of ten from a million on.
    summary = OFFLINE.replace("second: 100", "second: 1.05755e+06").replace(
        "query : 66000", "query : 697983000"
    )
    assert rate(only(tree(tmp_path, summary))) == 1_057_550.0


def test_a_mean_that_the_percentiles_exclude_is_left_out(tmp_path: Path) -> None:
    record = only(tree(tmp_path / "a", OFFLINE.replace(": 330000000000", ": 56036795731", 1)))
    assert record.metrics.latency_ms is not None
    assert (record.metrics.latency_ms.mean, record.metrics.latency_ms.p50) == (None, 330_000.0)
    assert record.reasons == ["the mean latency contradicts the percentiles and is left out"]
    record = only(tree(tmp_path / "b", OFFLINE.replace(": 330000000000", ": -5603679573", 1)))
    assert record.metrics.latency_ms is not None
    assert record.metrics.latency_ms.mean is None
    assert record.reasons == ["Mean latency (ns) is no positive number"]


def test_a_mean_whose_sum_may_overflow_is_left_out(tmp_path: Path) -> None:
    # 66 million samples of 330 s on average: 2.2e19 ns, more than 2^64, whatever mean the file has.
    summary = OFFLINE.replace("query : 66000", "query : 66000000").replace("second: 100", "second: 100000")
    record = only(tree(tmp_path, summary))
    assert record.metrics.latency_ms is not None
    assert (record.metrics.latency_ms.mean, record.metrics.latency_ms.n) == (None, 66_000_000)
    assert rate(record) == 100_000.0


def test_latencies_that_contradict_each_other_are_left_out(tmp_path: Path) -> None:
    record = only(tree(tmp_path / "a", SERVER.replace(": 12000000", ": 1200000"), scenario="Server"))
    assert record.metrics.latency_ms is None
    assert record.reasons == ["the latencies are not in the order of their percentiles"]
    twice = SERVER.replace("95.00 perc", "90.00 percentile latency (ns)   : 12500000\n95.00 perc")
    record = only(tree(tmp_path / "b", twice, scenario="Server"))
    assert record.metrics.latency_ms is not None
    assert (record.metrics.latency_ms.p90, record.metrics.latency_ms.p95) == (None, 13.0)
    differs = SINGLE_STREAM.replace("latency (ns) : 12000000", "latency (ns) : 12000001")
    record = only(tree(tmp_path / "c", differs, scenario="SingleStream"))
    assert record.metrics.latency_ms is None


def test_what_is_no_result_is_named(tmp_path: Path) -> None:
    run = tree(tmp_path)
    place = run.parents[1]
    put(place / "performance" / "ranging" / "mlperf_log_summary.txt", OFFLINE)
    put(place / "TEST01" / "performance" / "run_1" / "mlperf_log_summary.txt", OFFLINE)
    test04 = "inference_v1.0/closed/ACME/compliance/BOX/resnet50/Offline/TEST04/performance/run_1"
    put(tmp_path / test04 / "mlperf_log_summary.txt", OFFLINE)
    put(tmp_path / "elsewhere" / "mlperf_log_summary.txt", OFFLINE)
    put(place / "performance" / "run_2" / "mlperf_log_detail.txt", DETAIL)
    records, summary = read(tmp_path)
    assert len(records) == 1
    assert [(skipped.why, Path(skipped.file).parent.name) for skipped in summary.skipped] == [
        (mlperf_inference.ELSEWHERE, "elsewhere"),
        (mlperf_inference.COMPLIANCE, "run_1"),
        (mlperf_inference.COMPLIANCE, "run_1"),
        (mlperf_inference.RANGING, "ranging"),
        (mlperf_inference.NO_SUMMARY, "run_2"),
    ]


def test_several_runs_and_copies_have_names_of_their_own(tmp_path: Path) -> None:
    tree(tmp_path)
    tree(tmp_path, run="run_2")
    tree(tmp_path, top="copy/inference_v1.0/closed/ACME")
    tree(tmp_path, top="later/inference_results_v1.1/closed/ACME")
    tree(tmp_path, top="no round/open/ACME")
    tree(tmp_path, box="B" * 200)
    ids = [record.id for record in read(tmp_path)[0]]
    assert len(set(ids)) == len(ids) == 6
    assert all(len(identity) <= 200 for identity in ids)
    assert "mlperf-inference-1.1/closed/ACME/BOX/resnet50/Offline/run_1" in ids
    assert "mlperf-inference/open/ACME/BOX/resnet50/Offline/run_1" in ids


@pytest.mark.parametrize(
    ("benchmark", "top", "network", "target", "data", "length"),
    [
        ("resnet50", "inference_v1.0/closed/ACME", "resnet50-v1.5", None, "ImageNet2012", None),
        ("ssd-resnet34", "inference_v1.0/closed/ACME", "ssd-resnet34-1200", None, "COCO 2017", None),
        ("3d-unet-99", "inference_v1.0/closed/ACME", "unet-3d", 99, "BraTS 2019", None),
        ("3d-unet-99.9", "inference_v1.0/closed/ACME", "unet-3d", 99.9, "BraTS 2019", None),
        ("3d-unet-99.9", "inference_results_v2.0/closed/ACME", "3d-unet-99.9", None, None, None),
        ("3d-unet-99", "closed/ACME", "3d-unet-99", None, None, None),
        ("bert-99", "inference_v1.0/closed/ACME", "bert-large", 99, "SQuAD v1.1", 384),
        ("dlrm-99.9", "inference_v1.0/closed/ACME", "dlrm", 99.9, "Criteo 1TB Click Logs", None),
        ("rnnt", "inference_v1.0/closed/ACME", "rnnt", None, "LibriSpeech", None),
        ("mobilenet", "inference_v0.7/closed/ACME", "mobilenet", None, "ImageNet2012", None),
        ("llama2-70b-99", "inference_v4.0/closed/ACME", "llama2-70b-99", None, None, None),
        ("resnet50-99", "inference_v1.0/closed/ACME", "resnet50-99", None, None, None),
    ],
)
def test_benchmarks(
    tmp_path: Path,
    benchmark: str,
    top: str,
    network: str,
    target: float | None,
    data: str | None,
    length: int | None,
) -> None:
    tree(tmp_path, benchmark=benchmark, top=top)
    (record,), summary = read(tmp_path)
    assert (record.job.network, record.job.data, record.job.sequence_length) == (network, data, length)
    assert record.job.parameters.get("accuracy_target") == target
    assert record.job.parameters.get("task") == ("question-answering" if network == "bert-large" else None)
    assert [note.why for note in summary.notes] == ([] if data else [mlperf_inference.UNKNOWN_BENCHMARK])


@pytest.mark.parametrize(
    ("benchmark", "accuracy", "metric", "value"),
    [
        ("resnet50", ACCURACY, "top-1 accuracy, %", 76.03),
        ("ssd-resnet34", "IoU\nmAP=20.111%\nhash=96\n", "mAP", 0.20111),
        ("3d-unet-99", "Accuracy: mean = 0.85427, whole tumor = 0.9140\nDone!\n", "mean DICE", 0.85427),
        ("rnnt", "Word Error Rate: 7.4454891880312974%, accuracy=92.55%\n", "WER, %", 7.4454891880312974),
        ("bert-99", '{"exact_match": 83.4, "f1": 90.3152}\nReading examples...\n', "F1, %", 90.3152),
        ("dlrm-99", "AUC=80.185%, accuracy=96.608%, good=86114148\n", "AUC, %", 80.185),
    ],
)
def test_quality(tmp_path: Path, benchmark: str, accuracy: str, metric: str, value: float) -> None:
    (quality,) = only(tree(tmp_path, benchmark=benchmark, accuracy=accuracy)).metrics.quality
    assert (quality.metric, quality.value) == (metric, value)


@pytest.mark.parametrize(
    ("accuracy", "why"),
    [
        (None, "no accuracy.txt"),
        (b"", "accuracy.txt states no figure of it"),
        (b"accuracy=76.0", "accuracy.txt states no figure of it"),
        (b"accuracy=nan%, good=0, total=0\n", "accuracy.txt states no figure of it"),
        (b"\xff\xfe\x00accuracy=76%, good", "accuracy.txt states no figure of it"),
        (ACCURACY.encode() + b"accuracy=77.1%, good=1\n", "accuracy.txt states more than one figure of it"),
    ],
)
def test_a_quality_that_is_not_certain_is_absent_and_says_why(
    tmp_path: Path, accuracy: bytes | None, why: str
) -> None:
    record = only(tree(tmp_path, accuracy=accuracy))
    assert (record.metrics.quality, record.metrics.not_measured) == ([], {"quality": why})


def test_power_is_of_the_samples_inside_the_measured_period(tmp_path: Path) -> None:
    record = only(tree(tmp_path, detail=DETAIL, power=POWER))
    metrics = record.metrics
    assert (metrics.power_w, metrics.power_basis) == (WATTS, "system")
    assert metrics.efficiency is not None
    assert (metrics.efficiency.value, metrics.efficiency.unit) == (100 / WATTS, "samples/s/W")
    assert record.conditions["power_run"] is True
    assert record.software.libraries == {"loadgen": ".5a1 @ 6958607d52"}
    assert record.reasons == []


def test_samples_at_the_very_ends_of_the_period_do_not_count(tmp_path: Path) -> None:
    ends = DETAIL.replace("50.500", "51.000").replace("10.500", "10.000")
    # Seconds 52 to 69.
    assert only(tree(tmp_path, detail=ends, power=POWER)).metrics.power_w == WATTS
    outside = POWER.replace(sample(51, 1001), sample(51, 9e6)).replace(sample(70, 1020), sample(70, 9e6))
    assert only(tree(tmp_path, detail=ends, power=outside)).metrics.power_w == WATTS


def test_without_the_period_there_is_no_power(tmp_path: Path) -> None:
    record = only(tree(tmp_path, power=POWER))
    assert (record.metrics.power_w, record.metrics.power_basis, record.metrics.efficiency) == (
        None,
        None,
        None,
    )
    assert record.conditions["power_run"] is True
    assert record.metrics.not_measured == {
        "power_w": "the measured period is not known: no power_begin and power_end in the detail file; "
        "the mean of the whole log, idle time included, is 603.5 W"
    }


@pytest.mark.parametrize(
    ("detail", "why"),
    [
        (DETAIL.replace("power_end", "power_stop"), "not known"),
        (DETAIL.replace("12-31-2020", "13-31-2020"), "not known"),
        (DETAIL.replace("12-31-2020", "2020-12-31"), "not known"),
        (DETAIL.replace("01-01-2021", "01-01-2020"), "not known"),
        (DETAIL[: DETAIL.index("power_end") + 20], "not known"),
        (DETAIL + entry("power_end", "01-01-2021 00:00:11.500") + "\n", "not known"),
        (DETAIL.replace("23:59:50", "21:59:50").replace("01-01-2021 00", "12-31-2020 22"), "different zones"),
        (DETAIL.replace("00:00:10", "00:00:40"), "no sample for 11.5 s"),
    ],
)
def test_a_period_that_is_not_certain_gives_no_power(tmp_path: Path, detail: str, why: str) -> None:
    record = only(tree(tmp_path, detail=detail, power=POWER))
    assert (record.metrics.power_w, record.metrics.efficiency, rate(record)) == (None, None, 100.0)
    assert why in record.metrics.not_measured["power_w"]


@pytest.mark.parametrize("watts", ["-1.000000", "0.000000", "inf", "-inf", "nan"])
def test_samples_without_watts_are_passed_over_and_named(tmp_path: Path, watts: str) -> None:
    power = POWER.replace(sample(60, 1010), sample(60, watts)).replace(sample(61, 1011), sample(61, watts))
    record = only(tree(tmp_path, detail=DETAIL, power=power))
    assert record.metrics.power_w == WATTS
    assert record.reasons == [
        "power log: 2 samples without a positive number of watts, the first in line 31",
    ]


def test_a_gap_in_the_power_log_leaves_no_mean(tmp_path: Path) -> None:
    lines = POWER.splitlines(keepends=True)
    record = only(tree(tmp_path, detail=DETAIL, power="".join(lines[:25] + lines[31:])))
    assert record.metrics.power_w is None
    assert record.metrics.not_measured["power_w"].startswith("the power log has no sample for 7.0 s")


def test_power_logs_out_of_order_and_damaged(tmp_path: Path) -> None:
    lines = POWER.splitlines(keepends=True)
    lines[30], lines[31] = lines[31], lines[30]
    lines[40] = lines[40][:40]  # the line end is gone too: the next sample is lost with it
    record = only(tree(tmp_path, detail=DETAIL, power="".join(lines)))
    assert record.metrics.power_w == pytest.approx((20 * WATTS - 1020) / 19)
    assert record.reasons == [
        "power log: 1 lines that are no sample, the first in line 41",
        "power log: 1 steps back in time, the first in line 32",
    ]


def test_latency_scenarios_have_power_but_no_efficiency(tmp_path: Path) -> None:
    run = tree(tmp_path, SINGLE_STREAM, scenario="SingleStream", detail=DETAIL, power=POWER)
    record = only(run)
    assert (record.metrics.power_w, record.metrics.efficiency) == (WATTS, None)


@pytest.mark.parametrize(
    ("changes", "box", "expected"),
    [
        (
            {"accelerator_model_name": "NVIDIA A100-SXM-80GB (1x1g.10gb MIG)", "accelerators_per_node": 1},
            "BOX",
            ("A100-SXM4-80GB", 1, "1g.10gb", None),
        ),
        (
            {"system_name": "NVIDIA DGX-A100 (1x A100-SXM-80GB-MIG-1x1g.10gb)"},
            "BOX",
            ("A100-SXM4-80GB", 1, "1g.10gb", None),
        ),
        (
            {"accelerators_per_node": 1},
            "X-MIG_1x1g.10gb_TRT_HeteroMultiUse",
            ("A100-SXM4-80GB", 1, "1g.10gb", None),
        ),
        (
            {"accelerator_model_name": "NVIDIA A100-SXM-80GB (7x1g.5gb MIG)", "accelerators_per_node": 1},
            "BOX",
            ("A100-SXM4-80GB", 1, "1g.5gb", 7),
        ),
        ({"accelerators_per_node": "4", "number_of_nodes": "2"}, "BOX", ("A100-SXM4-80GB", 8, None, None)),
        ({"accelerator_model_name": "NVIDIA A10"}, "BOX", ("A10", 8, None, None)),
    ],
)
def test_accelerators(
    tmp_path: Path, changes: dict[str, Any], box: str, expected: tuple[str, int, str | None, int | None]
) -> None:
    record = only(tree(tmp_path, box=box, system=SYSTEM | changes))
    job = record.job
    assert (record.system.name, job.accelerators, job.partition, job.parameters.get("instances")) == expected
    assert record.system.accelerator.count == job.accelerators
    assert record.system.accelerator.partition == job.partition
    assert record.conditions.get("other_instances") == ("busy" if "HeteroMultiUse" in box else None)


def test_systems_of_other_makers_and_unusual_fields(tmp_path: Path) -> None:
    system = SYSTEM | {
        "accelerator_model_name": "Habana Gaudi",
        "accelerator_memory_capacity": "32 GiB",
        "framework": "SynapseAI 1.0",
        "other_software_stack": "",
        "status": "preview",
        "division": "open",
        "system_name": "Some box",
    }
    record = only(tree(tmp_path, system=system))
    assert (record.system.accelerator.kind, record.system.accelerator.memory_gib) == ("unknown", 32.0)
    assert (record.job.engine, record.software.engine, record.software.framework) == (
        None,
        None,
        "SynapseAI 1.0",
    )
    assert (record.system.server, record.software.cuda) == ("Some box", None)
    assert record.conditions == {"division": "closed", "preview": True, "power_run": False}
    assert record.reasons == ["the system's description says open division, the folder closed"]


@pytest.mark.parametrize(
    ("system", "why"),
    [
        (None, "not described"),
        ([], "no JSON object"),
        (SYSTEM | {"accelerators_per_node": 0}, "how many accelerators"),
        (SYSTEM | {"accelerators_per_node": True}, "how many accelerators"),
        (SYSTEM | {"accelerators_per_node": None}, "how many accelerators"),
        (SYSTEM | {"accelerators_per_node": "many"}, "how many accelerators"),
        (SYSTEM | {"number_of_nodes": -1}, "how many accelerators"),
        (SYSTEM | {"accelerator_model_name": ""}, "how many accelerators"),
        (SYSTEM | {"accelerator_model_name": "x" * 250}, "how many accelerators"),
    ],
)
def test_a_system_that_is_not_known_gives_no_record(tmp_path: Path, system: object, why: str) -> None:
    assert why in refused(tree(tmp_path, system=system).parents[6])


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_a_description_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    run = tree(tmp_path, system=None)
    put(run.parents[5] / "systems" / "BOX.json", content)
    assert "no JSON" in refused(tmp_path)


def test_text_that_no_terminal_should_see(tmp_path: Path) -> None:
    system = SYSTEM | {"system_name": "\ud800 \x1b[2J (8x)", "framework": "\u202eTensorRT"}
    record = only(tree(tmp_path, system=system, box="\udcff\x1b"))
    assert record.system.server == "\\ud800 \\u001b[2J"
    assert "\x1b" not in record.model_dump_json()


def test_nothing_to_read_is_one_clear_sentence(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "absent")
    assert "is not a folder" in refused(tree(tmp_path) / "mlperf_log_summary.txt")
    (tmp_path / "empty").mkdir()
    assert "holds no MLPerf inference result" in refused(tmp_path / "empty")
    assert "no summary of LoadGen's" in refused(tree(tmp_path / "zero", b""))
    assert "ranging" in refused(tree(tmp_path / "r", b"\x00" * 1000, run="ranging"))


def test_long_logs_take_constant_memory(tmp_path: Path) -> None:
    filler = (entry("generic_message", "x" * 200) + "\n") * 1000
    run = tree(tmp_path, power=POWER)
    with (run / "mlperf_log_detail.txt").open("w", encoding="ascii") as file:
        for _ in range(30_000_000 // len(filler)):
            file.write(filler)
        file.write(DETAIL)
    with (run / "spl.txt").open("w", encoding="ascii") as file:
        for _ in range(1000):
            file.write(sample(30, 400) * 10)
        file.write(POWER)
    with (run.parents[1] / "accuracy" / "accuracy.txt").open("a", encoding="ascii") as file:
        file.write("x" * 5_000_000)
    tracemalloc.start()
    record = only(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record.metrics.power_w == WATTS
    assert peak < 20_000_000


# --- damaged files ---------------------------------------------------------------------------------------

GARBAGE = (
    "",
    "\x00\x00\x00",
    "Samples per minute: 7",
    "killed",
    ":::MLLOG {",
    ":::MLLOG []",
    "Time,,Watts,,",
    "Time,12-31-2020 23:59:60.000,Watts,9.0,",
    sample(60, "-1.0").strip(),
    sample(61, "inf").strip(),
)


def damaged(data: st.DataObject, content: str) -> bytes:
    """A log with whole lines dropped, repeated, moved or added, mis-encoded, or cut off anywhere."""
    lines = content.splitlines()
    for _ in range(data.draw(st.integers(0, 4), "edits")):
        place = data.draw(st.integers(0, max(0, len(lines) - 1)), "place")
        match data.draw(st.sampled_from(["drop", "double", "move", "add", "keep"]), "edit"):
            case "drop" if lines:
                del lines[place]
            case "double" if lines:
                lines.insert(data.draw(st.integers(0, len(lines)), "to"), lines[place])
            case "move" if lines:
                lines.insert(data.draw(st.integers(0, len(lines) - 1), "to"), lines.pop(place))
            case "add":
                lines.insert(place, data.draw(st.sampled_from(GARBAGE), "garbage"))
    end = data.draw(st.sampled_from(["\n", "\n", "\r\n"]), "end")
    raw = bytearray(
        (end.join(lines) + end).encode(data.draw(st.sampled_from(["utf-8", "utf-8", "utf-16"]), "code"))
    )
    if data.draw(st.booleans(), "cut?"):
        del raw[data.draw(st.integers(0, len(raw)), "cut") :]
    if data.draw(st.booleans(), "noise?"):
        raw[data.draw(st.integers(0, len(raw)), "at") : 0] = b"\xff\x00\xfe"
    return bytes(raw)


def records_of(summary: bytes, detail: bytes, power: bytes, accuracy: bytes, scenario: str) -> list[Record]:
    with tempfile.TemporaryDirectory() as name:
        tree(Path(name), summary, detail=detail, power=power, accuracy=accuracy, scenario=scenario)
        try:
            return read(Path(name))[0]
        except UnreadableInputError:
            return []


@settings(max_examples=150, deadline=None)
@given(data=st.data(), scenario=st.sampled_from(["Offline", "Server", "SingleStream", "MultiStream"]))
def test_damaged_files_give_no_wrong_figure(data: st.DataObject, scenario: str) -> None:
    summary = {
        "Offline": OFFLINE,
        "Server": SERVER,
        "SingleStream": SINGLE_STREAM,
        "MultiStream": MULTI_STREAM_LATENCY,
    }[scenario]
    power = damaged(data, POWER)
    for record in records_of(
        damaged(data, summary), damaged(data, DETAIL), power, damaged(data, ACCURACY), scenario
    ):
        metrics = record.metrics
        assert record.status in (Status.OK, Status.INVALID, Status.INTERRUPTED)
        if metrics.throughput:
            # With the line of the scheduled rate gone, the completed one in its place is the later wording.
            assert metrics.throughput.value in {"Offline": (100.0,), "Server": (899.87, 899.52)}[scenario]
            assert record.status is not Status.INTERRUPTED
        if metrics.latency_ms:
            true = loadgen_truth(summary)
            for name, value in metrics.latency_ms.model_dump(exclude_none=True, exclude={"n"}).items():
                assert value * 1e6 == true[name]
        if metrics.power_w is not None:
            # The mean of the samples that stand whole in the damaged log, each as often as it does.
            assert metrics.power_w == pytest.approx(mean_of_whole_samples(power))
        assert [quality.value for quality in metrics.quality] in ([], [76.03])
        assert record.job.parameters.get("latency_bound_ms", 15) == 15


def loadgen_truth(summary: str) -> dict[str, int]:
    found = dict(re.findall(r"(\S+) (?:percentile )?latency \(ns\) +: ([0-9]+)", summary))
    names = {"Min": "min", "Max": "max", "Mean": "mean", "99.90": "p99_9"}
    return {names.get(name, f"p{name[:2]}"): int(value) for name, value in found.items()}


def mean_of_whole_samples(power: bytes) -> float:
    whole = {sample(second, 950 + second)[:-1].encode(): 950 + second for second in range(51, 71)}
    watts = []
    for line in power.split(b"\n"):
        start = re.match(rb"Time,[^,]+,Watts,[0-9.]+,", line)
        watts += [value for text, value in whole.items() if start and text.startswith(start[0])]
    return sum(watts) / len(watts)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_bytes_give_only_figures_that_stand_in_the_file(data: st.DataObject) -> None:
    def scratched(content: str) -> bytes:
        raw = bytearray(content.encode())
        for _ in range(data.draw(st.integers(0, 5), "edits")):
            place = data.draw(st.integers(0, len(raw)), "place")
            if data.draw(st.booleans(), "remove?"):
                del raw[place : place + 1]
            else:
                raw[place:place] = data.draw(
                    st.one_of(st.binary(max_size=3), st.sampled_from([b"\n", b":", b"-", b"e"]))
                )
        return bytes(raw)

    summary = scratched(SERVER)
    for record in records_of(summary, scratched(DETAIL), scratched(POWER), scratched(ACCURACY), "Server"):
        if record.metrics.throughput:
            assert record.origin is not None
            assert record.origin.row is not None
            assert float(record.origin.row.rpartition(":")[2]) == record.metrics.throughput.value
            assert record.origin.row in summary.decode("utf-8", errors="replace")


def test_the_modules_read_what_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"\x00" * 5000, b"\xff" * 5000, b"x" * 3_000_000, OFFLINE.encode("utf-16")):
        path.write_bytes(content)
        assert loadgen.read_summary(path) is None
        assert loadgen.read_detail(path) == loadgen.LoadgenDetail()
        log_ = spl.read(path, (datetime(2021, 1, 1), datetime(2021, 1, 2)))
        assert (log_.mean_w, log_.samples, log_.whole_w) == (None, 0, None)


# --- the real results ------------------------------------------------------------------------------------

A10 = "A10x8_TRT"
MIG = "DGX-A100_A100-SXM-80GB-MIG_1x1g.10gb_TRT_HeteroMultiUse"
ONE_A100 = "DGX-A100_A100-SXM-80GBx1_TRT_datacenter"
STATION = "DGX-Station-A100_A100-SXM-80GBx4_TRT_MaxQ"

#: The page's rows by their lines: system, benchmark, line of Offline, line of Server (0: not run).
ROWS = (
    (A10, "resnet50", 325, 370),
    (A10, "ssd-resnet34", 332, 377),
    (A10, "3d-unet-99", 339, 0),
    (A10, "3d-unet-99.9", 339, 0),
    (A10, "rnnt", 346, 384),
    (A10, "bert-99", 353, 391),
    (A10, "dlrm-99.9", 360, 398),
    (MIG, "resnet50", 327, 372),
    (MIG, "ssd-resnet34", 334, 379),
    (MIG, "3d-unet-99", 341, 0),
    (MIG, "3d-unet-99.9", 341, 0),
    (MIG, "rnnt", 348, 386),
    (MIG, "bert-99", 355, 393),
    (MIG, "dlrm-99.9", 362, 400),
    (ONE_A100, "resnet50", 328, 373),
    (ONE_A100, "ssd-resnet34", 335, 380),
    (ONE_A100, "3d-unet-99", 342, 0),
    (ONE_A100, "3d-unet-99.9", 342, 0),
    (ONE_A100, "rnnt", 349, 387),
    (ONE_A100, "bert-99", 356, 394),
    (ONE_A100, "dlrm-99.9", 363, 401),
    (STATION, "resnet50", 410, 432),
    (STATION, "ssd-resnet34", 413, 435),
    (STATION, "3d-unet-99", 416, 0),
    (STATION, "3d-unet-99.9", 416, 0),
    (STATION, "rnnt", 419, 438),
    (STATION, "bert-99", 422, 441),
    (STATION, "dlrm-99.9", 425, 443),
)
#: Results that the page has no row for, and why; of each system, Offline and Server.
WITHOUT_ROW = {
    "bert-99.9": "the page's BERT rows are of the 99 % target (its line 445)",
    "dlrm-99": "the page's DLRM rows are of the 99.9 % target; it is the same run, filed under both",
}
#: What differs from the page, and why. The page's efficiency is the mean inside the measured period.
NO_DETAIL = "no detail file here, so the measured period is not known"
WITHOUT_EFFICIENCY = {
    413: NO_DETAIL,
    416: NO_DETAIL,
    419: NO_DETAIL,
    425: NO_DETAIL,
    435: NO_DETAIL,
    438: NO_DETAIL,
    443: NO_DETAIL,
}

NETWORKS = {
    "resnet50-v1.5": "ResNet-50 v1.5",
    "ssd-resnet34-1200": "SSD ResNet-34",
    "unet-3d": "3D-UNet",
    "rnnt": "RNN-T",
    "bert-large": "BERT",
    "dlrm": "DLRM",
}
BOARDS = {"A10": "A10", "A100-SXM4-80GB": "A100 SXM-80GB"}


@pytest.fixture(scope="module")
def real() -> tuple[list[Record], Summary]:
    return read(RESULTS)


@pytest.fixture(scope="module")
def page() -> dict[int, dict[str, str]]:
    rows = {}
    for table in ("mlperf_offline", "mlperf_server", "mlperf_power_offline", "mlperf_power_server"):
        with (PUBLISHED / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                rows[int(row["source_line"])] = row
    return rows


def printed(value: float, like: str) -> Decimal:
    """A value rounded as the page rounds: to the digits of its figure, halves up (36,115.5 is its 36,116)."""
    return Decimal(repr(value)).quantize(Decimal(like), ROUND_HALF_UP)


def key(record: Record) -> tuple[str, str, str]:
    _, _, _, system, benchmark, scenario, _ = record.id.split("/")
    return system, benchmark, scenario


@needs_results
def test_all_real_results_are_read_and_valid(real: tuple[list[Record], Summary]) -> None:
    records, summary = real
    assert len(records) == len({record.id for record in records}) == summary.records == 64
    assert (summary.skipped, summary.notes) == ([], [])
    assert {record.status for record in records} == {Status.OK}
    assert sum(bool(record.conditions["power_run"]) for record in records) == 16
    assert {record.conditions["preview"] for record in records if record.system.name == "A10"} == {True}
    assert all(len(record.metrics.quality) == 1 for record in records)
    assert {record.job.parameters["rules"] for record in records} == {"mlperf-inference-1.0"}
    bounds = {"resnet50-v1.5": 15, "ssd-resnet34-1200": 100, "rnnt": 1000, "bert-large": 130, "dlrm": 30}
    for record in records:
        if record.job.scenario == "server":
            assert record.job.parameters["latency_bound_ms"] == bounds[record.job.network]


@needs_results
def test_every_real_result_is_a_row_of_the_page_or_says_why_not(
    real: tuple[list[Record], Summary], page: dict[int, dict[str, str]]
) -> None:
    lines = {}
    for system, benchmark, offline, server in ROWS:
        lines[system, benchmark, "Offline"] = offline
        if server:
            lines[system, benchmark, "Server"] = server
    by_key = {key(record): record for record in real[0]}
    without = {found for found in by_key if found[1] in WITHOUT_ROW}
    assert set(by_key) == set(lines) | without
    assert (len(lines), len(without), len(set(lines.values()))) == (48, 16, 44)
    for found, line in lines.items():
        row, record = page[line], by_key[found]
        assert row["network"] == NETWORKS[record.job.network]
        assert row["scenario"].lower() == record.job.scenario
        assert (row["gpu_version"], int(row["gpu_count"])) == (
            BOARDS[record.system.name],
            record.job.accelerators,
        )
        assert (row.get("mig_profile") or None) == record.job.partition
        assert bool(row.get("efficiency_per_watt")) == record.conditions["power_run"]
        assert printed(rate(record), row["throughput"]) == Decimal(row["throughput"])
        assert record.metrics.throughput is not None
        assert row["throughput_unit"].replace("/sec", "/s") == record.metrics.throughput.unit


@needs_results
def test_every_row_of_these_systems_is_reached(page: dict[int, dict[str, str]]) -> None:
    reached = {line for _, _, *lines in ROWS for line in lines if line}
    plain = {("A10", "8", ""), ("A100 SXM-80GB", "1", ""), ("A100 SXM-80GB", "1", "1g.10gb")}
    expected = {
        line
        for line, row in page.items()
        if (row["gpu_version"], row["gpu_count"], row.get("mig_profile", "")) in plain
        or (row.get("efficiency_per_watt") and row["gpu_count"] == "4")
    }
    assert reached == expected


@needs_results
def test_the_pages_efficiency_is_the_mean_inside_the_measured_period(
    real: tuple[list[Record], Summary], page: dict[int, dict[str, str]]
) -> None:
    by_key = {key(record): record for record in real[0]}
    for system, benchmark, *lines in ROWS:
        for scenario, line in zip(("Offline", "Server"), lines, strict=True):
            if system != STATION or not line:
                continue
            record = by_key[system, benchmark, scenario]
            if line in WITHOUT_EFFICIENCY:
                assert record.metrics.power_w is None
                assert "not known" in record.metrics.not_measured["power_w"]
                continue
            assert record.metrics.efficiency is not None
            assert printed(record.metrics.efficiency.value, page[line]["efficiency_per_watt"]) == Decimal(
                page[line]["efficiency_per_watt"]
            )
    assert sum(record.metrics.power_w is not None for record in real[0]) == 4


@needs_results
def test_the_mean_of_the_whole_power_log_would_be_wrong(page: dict[int, dict[str, str]]) -> None:
    """Why no power is kept without the measured period: idle time before and after lowers the mean."""
    off = {}
    for path in sorted(RESULTS.rglob("spl.txt")):
        detail = path.with_name("mlperf_log_detail.txt")
        if detail.is_file():
            log_ = spl.read(path, loadgen.read_detail(detail).period)
            assert log_.mean_w is not None
            assert log_.whole_w is not None
            off["/".join(path.parts[-5:-3])] = round(100 * (log_.whole_w / log_.mean_w - 1), 1)
    assert off == {
        "bert-99/Offline": -2.4,
        "bert-99/Server": -3.8,
        "resnet50/Offline": -2.6,
        "resnet50/Server": -5.6,
    }
    # Against the page's own efficiency, where loading takes long: DLRM, lines 425 and 443.
    for scenario, line, expected in (("Offline", 425, -19.7), ("Server", 443, -31.9)):
        path = next(RESULTS.glob(f"*/*/results/{STATION}/dlrm-99.9/{scenario}/performance/run_1/spl.txt"))
        row = page[line]
        watts = float(row["throughput"]) / float(row["efficiency_per_watt"])
        whole = spl.read(path, None).whole_w
        assert whole is not None
        assert round(100 * (whole / watts - 1), 1) == expected


@needs_results
def test_overflown_means_of_real_offline_runs_are_left_out(real: tuple[list[Record], Summary]) -> None:
    """They are those runs whose nanoseconds, summed over the samples, exceed LoadGen's 64 bits."""
    missing = 0
    for record in real[0]:
        latency = record.metrics.latency_ms
        assert latency is not None
        if record.job.scenario == "server":
            assert latency.mean is not None
            continue
        assert latency.n is not None
        assert latency.p50 is not None
        overflown = latency.n * latency.p50 * 1e6 > 2**64
        assert (latency.mean is None) == overflown
        assert ("the mean latency contradicts the percentiles and is left out" in record.reasons) == overflown
        missing += overflown
    assert missing == 8


@needs_results
def test_bad_samples_of_real_power_logs_are_named(real: tuple[list[Record], Summary]) -> None:
    named = {"/".join(key(r)[1:]): r.reasons[-1] for r in real[0] if any("watts" in x for x in r.reasons)}
    text = "power log: 1 samples without a positive number of watts, the first in line {}"
    assert named == {
        "bert-99.9/Offline": text.format(51),
        "dlrm-99/Offline": text.format(59),
        "dlrm-99.9/Offline": text.format(59),
    }


@needs_results
def test_a_real_result_alone_equals_that_of_the_tree(
    real: tuple[list[Record], Summary], tmp_path: Path
) -> None:
    place = RESULTS / "closed" / "NVIDIA"
    for record in real[0][:: len(real[0]) // 4]:
        system, benchmark, scenario = key(record)
        alone = only(place / "results" / system / benchmark / scenario)
        assert alone.replace(origin=None) == record.replace(origin=None)
    lost = tmp_path / "inference_v1.0" / "closed" / "NVIDIA" / "results"
    shutil.copytree(place / "results" / A10 / "rnnt", lost / A10 / "rnnt")
    assert mlperf_inference.NO_SYSTEM in refused(lost)


def values(records: Sequence[Record]) -> list[tuple[str, float]]:
    return [(record.id, rate(record)) for record in records]


@needs_results
def test_reading_twice_gives_the_same(real: tuple[list[Record], Summary]) -> None:
    again = read(RESULTS)
    assert values(again[0]) == values(real[0])
    assert again[0] == real[0]
    assert again[1] == real[1]
