"""NVIDIA's page of April 2021: every row a Record, nothing lost, nothing changed, each fact in its field."""

from __future__ import annotations

import csv
import re
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from accelmark import names, published
from accelmark.errors import UsageError
from accelmark.job import SCENARIOS
from accelmark.published.nvidia_2021_04 import _rows
from accelmark.published.nvidia_2021_04_footnotes import EXPLAIN, applies
from accelmark.record import Record, Source, Status

SHARED = Path(__file__).resolve().parents[3] / "shared"
TABLES = (
    "mlperf_training",
    "convergence",
    "training_single_gpu",
    "mlperf_offline",
    "mlperf_server",
    "mlperf_power_offline",
    "mlperf_power_server",
    "inference",
    "triton",
    "asr_streaming",
    "nlp_service",
    "tts_service",
)


@pytest.fixture(scope="module")
def rows() -> dict[int, Record]:
    return {int(record.id.rpartition("/")[2]): record for record in published.load("nvidia-2021-04")}


def test_533_rows_with_ids_that_are_lines(rows: dict[int, Record]) -> None:
    everything = published.load("published")
    assert len(rows) == 525
    assert len(everything) == len({record.id for record in everything}) == 533
    assert {name: each.rows for name, each in published.SETS.items()} == {
        name: len(published.load(name)) for name in published.SETS
    }
    for line, record in rows.items():
        assert record.id == f"nvidia-2021-04/{line}"
        assert (record.source, record.status) == (Source.PUBLISHED, Status.OK)
        assert record.origin is not None
        assert record.origin.line == line
        assert record.origin.row


def test_every_name_is_canonical(rows: dict[int, Record]) -> None:
    boards, networks = names.read("boards"), names.read("networks")
    spellings = names.read("spellings")
    for record in published.load("published"):
        job, metrics = record.job, record.metrics
        assert record.system.name in boards
        assert job.network in networks
        assert job.scenario in SCENARIOS
        assert job.precision is None or job.precision in spellings["precisions"]
        assert job.data is None or job.data in spellings["datasets"]
        assert record.system.server is None or record.system.server in spellings["servers"]
        assert metrics.throughput is None or metrics.throughput.unit in spellings["units"]
        assert metrics.efficiency is None or metrics.efficiency.unit in spellings["units"]
    # The 44 entries of the pages: several printed names and uses of one network are one network here.
    assert set(networks) == {record.job.network for record in published.load("published")}


@pytest.mark.parametrize("table", TABLES)
def test_no_figure_of_a_table_is_changed_or_lost(table: str, rows: dict[int, Record]) -> None:
    """Each cell of each row, against the printed row itself, which the files carry verbatim."""
    for cells in _rows(table):
        record = rows[int(cells["source_line"])]
        job, metrics = record.job, record.metrics
        assert record.origin is not None
        assert record.origin.row == cells["raw"]
        printed = cells["raw"].replace(",", "")
        expected = {
            "throughput": metrics.throughput.value if metrics.throughput else None,
            "time_to_train_min": metrics.time_to_train_min,
            "latency_ms": metrics.latency_ms.mean if metrics.latency_ms else None,
            "efficiency_per_watt": metrics.efficiency.value if metrics.efficiency else None,
            "latency_to_first_audio_s": metrics.time_to_first_audio_s,
            "latency_between_chunks_s": metrics.time_between_chunks_s,
            "quality_value": (metrics.quality[0].value or metrics.quality[0].target)
            if metrics.quality
            else None,
            "stream_count": job.parameters.get("streams"),
            "chunk_ms": job.parameters.get("chunk_ms"),
            "latency_constraint_ms": job.parameters.get("latency_bound_ms"),
            "model_instances": job.parameters.get("model_instances"),
            "concurrent_client_requests": job.parameters.get("concurrent_requests"),
            "dynamic_batch_size": job.parameters.get("dynamic_batch_size"),
            "gpu_count": job.accelerators,
        }
        for column, value in expected.items():
            if cells.get(column):
                assert value == float(cells[column]), (table, cells["source_line"], column)
                if column not in ("chunk_ms", "gpu_count"):
                    assert re.search(rf"(?<![\d])0?{re.escape(cells[column].removeprefix('0'))}", printed)
            elif column in cells:
                assert value is None, (table, cells["source_line"], column)
        if cells.get("batch_size"):
            assert job.batch_size == int(cells["batch_size"])


def test_footnotes_reach_the_rows_they_are_about(rows: dict[int, Record]) -> None:
    facts = list(_rows("footnotes"))
    printed = [row for table in TABLES for row in _rows(table)]
    # Some say what an empty cell means in a table that has none, and one speaks of BERT on the A30, for which
    # the page has no row.
    about_nothing = 0
    for fact in facts:
        if fact["parameter"] in EXPLAIN:
            continue
        hits = sum(applies(fact, row) for row in printed)
        a30_bert = "A30 Inference" in fact["section"] and "BERT" in fact["applies_to"]
        if a30_bert or fact["applies_to"].endswith(("= '-'", "efficiency column")):
            about_nothing += not hits
        else:
            assert hits, fact
    assert 0 < about_nothing < 20


def test_conditions_that_make_rows_comparable_or_not(rows: dict[int, Record]) -> None:
    assert rows[79].job.batch_size == 65536 // 8
    assert rows[79].job.sequence_length == 128
    assert rows[80].job.sequence_length == 512
    assert rows[327].job.partition == "1g.10gb"
    assert (rows[463].job.partition, rows[463].job.parameters["instances"]) == ("1g.5gb", 7)
    assert (rows[477].job.partition, rows[477].job.parameters["instances"]) == ("1/7", 1)
    assert (rows[504].job.partition, rows[504].job.parameters["instances"]) == ("1/7", 7)
    assert rows[353].job.parameters["accuracy_target"] == 99
    assert rows[353].conditions["preview"] is True
    assert rows[357].conditions["preview"] is False
    assert rows[372].job.parameters["latency_bound_ms"] == 15
    bases = Counter(
        (record.job.scenario, record.metrics.power_basis)
        for record in rows.values()
        if record.metrics.efficiency
    )
    assert bases == {
        ("offline", "system"): 18,
        ("server", "system"): 14,
        ("inference", "board"): 34,
        # The page has no notes under its T4 table.
        ("inference", None): 12,
    }
    assert rows[408].conditions["power_run"] is True
    assert rows[326].conditions["power_run"] is False
    assert rows[175].conditions["server"] == "pre-production"
    assert rows[463].conditions["container"] == "pre-release"


def test_the_files_are_those_that_were_verified() -> None:
    """The tables are facts carried from a verified transcription; here they are compared with it."""
    if not (SHARED / "published").is_dir():
        pytest.skip("the shared data is not beside this checkout")
    folder = resources.files("accelmark.published").joinpath("nvidia_2021_04_tables")
    for table in TABLES:
        ours = list(csv.reader(folder.joinpath(f"{table}.csv").read_text(encoding="utf-8").splitlines()))
        theirs = list(
            csv.reader((SHARED / "published" / f"{table}.csv").read_text(encoding="utf-8").splitlines())
        )
        assert ours == theirs, table


def test_the_raw_rows_stand_on_the_page() -> None:
    page = SHARED / "pages" / "nvidia-2021-04.txt"
    if not page.is_file():
        pytest.skip("the shared data is not beside this checkout")
    lines = page.read_text(encoding="utf-8").splitlines()
    for record in published.load("nvidia-2021-04"):
        assert record.origin is not None
        assert record.origin.line is not None
        printed = lines[record.origin.line - 1].replace("\t", " | ")
        assert (record.origin.row or "").strip() == printed.strip(), record.id


def test_a_line_without_a_figure_says_where_the_next_ones_are() -> None:
    with pytest.raises(UsageError, match=r"line 500 of nvidia-2021-04 holds no figure.*496 and 504"):
        published.find("nvidia-2021-04/500")
    with pytest.raises(UsageError, match="unknown published set 'nvidia-2021'; did you mean nvidia-2021-04"):
        published.load("nvidia-2021")


def test_the_eight_ratios_of_lambda() -> None:
    ratios = {
        (r.job.network, r.job.accelerators, r.job.precision): r.metrics.ratio
        for r in published.load("lambda-2021-08")
    }
    assert ratios == {
        ("convnets", 1, "tf32"): 0.92,
        ("convnets", 1, "fp16"): 1.01,
        ("convnets", 8, "tf32"): 1.13,
        ("convnets", 8, "fp16"): 1.14,
        ("language-models", 1, "tf32"): 1.34,
        ("language-models", 1, "fp16"): 1.34,
        ("language-models", 8, "tf32"): 1.36,
        ("language-models", 8, "fp16"): 1.33,
    }
