"""The report's tables: complete, each Record in one, figures as Records have them, honest about the rest."""

from __future__ import annotations

import re

import pytest

from accelmark import published
from accelmark.audit import audit
from accelmark.job import SCENARIOS
from accelmark.record import Metrics, Record, Scaling, Source, Status
from accelmark.report.tables import TABLES, build
from accelmark.report.view import Line, Table
from tests.records import record

#: Rows of the pages' tables.
COUNTS = {
    "mlperf-training": 34,
    "convergence": 67,
    "ratios": 8,
    "training-one": 108,
    "inference": 106,
    "offline": 41,
    "server": 34,
    "power-offline": 18,
    "power-server": 14,
    "serving": 10,
    "speech-recognition": 66,
    "language-service": 12,
    "speech-synthesis": 15,
}


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    records = published.load("published")
    return {table.name: table for table in build(records, audit(records))}


def line(table: Table, identity: str) -> Line:
    return next(each for each in table.lines if each.id == identity)


def cell(made: Record, title: str) -> str:
    (table,) = build([made])
    texts = [
        c.text for c, column in zip(table.lines[0].cells, table.columns, strict=True) if column.title == title
    ]
    assert len(texts) == 1
    return texts[0]


def test_the_originals_tables_are_complete(tables: dict[str, Table]) -> None:
    assert {name: len(table.lines) for name, table in tables.items()} == COUNTS


def test_every_line_has_a_cell_for_every_column(tables: dict[str, Table]) -> None:
    for table in tables.values():
        assert re.fullmatch(r"[a-z-]+", table.name)
        for each in table.lines:
            assert len(each.cells) == len(table.columns)
            assert all(c.text for c in each.cells), (table.name, each.id)


def test_the_printed_figures_are_in_the_cells(tables: dict[str, Table]) -> None:
    """Every number of a source row that is a figure stands in its line, to the digit."""
    for record_ in published.load("published"):
        table = next(t for t in tables.values() if any(each.id == record_.id for each in t.lines))
        shown = line(table, record_.id)
        orders = [c.order for c in shown.cells if c.order is not None]
        metrics = record_.metrics
        for value in (
            metrics.throughput.value if metrics.throughput else None,
            metrics.time_to_train_min,
            metrics.latency_ms.mean if metrics.latency_ms else None,
            metrics.efficiency.value if metrics.efficiency else None,
            metrics.ratio,
            metrics.time_to_first_audio_s,
            metrics.time_between_chunks_s,
            record_.job.batch_size if table.name in ("training-one", "convergence", "inference") else None,
        ):
            assert value is None or value in orders, (record_.id, value)


def test_a_figure_is_shown_as_printed(tables: dict[str, Table]) -> None:
    texts = [c.text for c in line(tables["convergence"], "nvidia-2021-04/64").cells]
    assert texts[2:5] == ["40", "75.9 % top-1 accuracy", "22,008 images/s"]
    texts = [c.text for c in line(tables["power-offline"], "nvidia-2021-04/410").cells]
    assert texts[1:3] == ["124,529 samples/s", "98.14 samples/s/W (system)"]


def test_doubtful_rows_say_why(tables: dict[str, Table]) -> None:
    (flag,) = line(tables["speech-recognition"], "nvidia-2021-04/666").flags
    assert flag.kind == "doubtful"
    assert "256 streams paced as live audio show RTFX 64" in flag.why
    assert line(tables["speech-recognition"], "nvidia-2021-04/667").flags == ()


def test_what_is_not_there_says_why_and_is_never_zero_or_blank() -> None:
    made = record(
        metrics=Metrics(not_measured={"energy_j": "no power sensor"}),
        job=record().job.model_copy(update={"scenario": "inference"}),
    )
    assert cell(made, "Efficiency") == "not measured: no power sensor"
    assert cell(made, "Throughput") == "not measured"
    assert cell(made.replace(source=Source.PUBLISHED), "Throughput") == "not stated"
    assert cell(made.replace(status=Status.OUT_OF_MEMORY), "Throughput") == "none: out of memory"


def test_flags_of_ones_own_records() -> None:
    job = record().job
    tiny = record("tiny", job=job.model_copy(update={"size": "tiny"}))
    noisy = record("noisy", status=Status.NOISY, reasons=["the 95 % interval is ±9 %"])
    failed = record("failed", status=Status.CRASHED, reasons=["SIGKILL"])
    (table,) = build([record("ok"), tiny, noisy, failed])
    flags = {each.id: [(flag.kind, flag.why) for flag in each.flags] for each in table.lines}
    assert flags["ok"] == []
    assert flags["tiny"][0][0] == "tiny"
    assert flags["noisy"] == [("noisy", "the 95 % interval is ±9 %")]
    assert flags["failed"] == [("failed", "crashed; SIGKILL")]
    throughput = next(i for i, c in enumerate(table.columns) if c.title == "Throughput")
    assert table.lines[3].cells[throughput].text == "none: crashed"


def test_the_interval_and_the_scaling() -> None:
    assert cell(record(), "95 % interval").endswith("(±0.0%)")
    several = record(
        job=record().job.model_copy(update={"accelerators": 2}),
        metrics=Metrics(
            throughput=record().metrics.throughput,
            scaling=Scaling(efficiency=0.91, reference="a", basis="accelerators"),
        ),
    )
    assert cell(several, "Scaling efficiency") == "91% (accelerators)"


def test_every_scenario_has_a_table_of_its_own() -> None:
    for scenario in SCENARIOS:
        made = record(job=record().job.model_copy(update={"scenario": scenario}))
        (table,) = build([made])
        assert table.name != "others", scenario
    (table,) = build([record(job=record().job.model_copy(update={"scenario": "something new"}))])
    assert table.name == "others"
    assert len({definition.name for definition in TABLES}) == len(TABLES)


def test_text_from_records_is_harmless() -> None:
    hostile = "<script>\u202e\x1b[31m"
    made = record(job=record().job.model_copy(update={"network": hostile, "data": hostile}))
    (table,) = build([made])
    for c in table.lines[0].cells:
        assert "\x1b" not in c.text
        assert "\u202e" not in c.text
