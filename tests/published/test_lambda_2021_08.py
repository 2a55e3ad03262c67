"""The figures carried of Lambda's study: complete, as in its tables, and leading to its ratios."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelmark.compare.study import compare
from accelmark.errors import UsageError
from accelmark.importers.lambda_csv import COLUMNS, read
from accelmark.published import SETS, figures, load
from accelmark.published.rounding import reads_as_printed
from accelmark.record import Source, Status

TABLES = Path(__file__).resolve().parents[3] / "shared" / "lambda" / "csv-2021-07"
NAME = "lambda-2021-08"

#: As printed on the page: group, accelerators, precision.
RATIOS = {
    ("convnets", 1, "32-bit"): 0.92,
    ("convnets", 1, "mixed"): 1.01,
    ("convnets", 8, "32-bit"): 1.13,
    ("convnets", 8, "mixed"): 1.14,
    ("language models", 1, "32-bit"): 1.34,
    ("language models", 1, "mixed"): 1.34,
    ("language models", 8, "32-bit"): 1.36,
    ("language models", 8, "mixed"): 1.33,
}


def test_all_forty_figures_are_there_once() -> None:
    records = figures(NAME)
    cells = {(r.job.network, r.system.name, r.job.accelerators, r.job.precision, r.job.size) for r in records}
    assert len(records) == len(cells) == len({record.id for record in records}) == 5 * 2 * 2 * 2
    assert {record.system.accelerator.count for record in records} == {1, 8}
    for record in records:
        assert (record.source, record.status) == (Source.PUBLISHED, Status.OK)
        assert record.job.accelerators == record.system.accelerator.count
        assert record.origin is not None
        assert record.origin.page == "RTX A6000 vs RTX 3090 Deep Learning Benchmarks, 2021-08-09"


def test_a_figure_says_where_it_is_from() -> None:
    record = next(r for r in figures(NAME) if r.id == f"{NAME}/fp32/8x-rtx-a6000/ssd300-resnet50")
    assert record.metrics.throughput is not None
    assert (record.metrics.throughput.value, record.metrics.throughput.unit) == (1057, "images/s")
    assert (record.job.precision, record.job.batch_size) == ("tf32", 144)
    assert record.origin is not None
    assert (record.origin.file, record.origin.line) == ("pytorch-train-throughput-fp32.csv", 50)
    assert record.origin.row == "8x RTX A6000: ssd 1057"


def test_the_eight_ratios_come_out() -> None:
    study = SETS[NAME].study
    assert study is not None
    comparison = compare(figures(NAME), study.reference, study.groups, study.numerators)
    found = {
        (r.numerator.group, r.numerator.accelerators, r.numerator.precision): round(r.value or 0, 2)
        for r in comparison.ratios
    }
    assert found == RATIOS
    assert str(comparison.reference) == "RTX 3090:tf32"
    assert not comparison.notes


@pytest.mark.parametrize("factor", [0.5, 2])
@pytest.mark.parametrize("place", range(40))
def test_a_factor_of_two_in_any_figure_would_be_seen(place: int, factor: float) -> None:
    study = SETS[NAME].study
    assert study is not None
    records = figures(NAME)
    throughput = records[place].metrics.throughput
    assert throughput is not None
    wrong = throughput.model_copy(update={"value": throughput.value * factor})
    records[place] = records[place].replace(
        metrics=records[place].metrics.model_copy(update={"throughput": wrong})
    )
    comparison = compare(records, study.reference, study.groups, study.numerators)
    found = {
        (r.numerator.group, r.numerator.accelerators, r.numerator.precision): round(r.value or 0, 2)
        for r in comparison.ratios
    }
    assert found != RATIOS


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"Lambda's tables are not here ({TABLES})")
def test_every_figure_is_that_of_the_tables() -> None:
    imported = {record.id.removeprefix("lambda-2021-07/"): record for record in read(TABLES)[0]}
    columns = {column.network: name for name, column in COLUMNS.items()}
    for record in figures(NAME):
        assert record.origin is not None
        column = columns[record.job.network]
        same = imported[f"{record.origin.file}/{record.origin.line}/{column}"]
        assert record.metrics.throughput == same.metrics.throughput
        assert record.job == same.job
        assert (record.system.name, record.system.accelerator.count) == (
            same.system.name,
            same.system.accelerator.count,
        )
        assert same.origin is not None
        assert same.origin.row is not None
        board, _, figure = (record.origin.row or "").partition(": ")
        assert same.origin.row.startswith(f"{column}: {board},")
        assert f"{figure.removeprefix(column).strip()}.0" in same.origin.row


def test_an_unknown_set_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="unknown published set 'lambda-2021'; did you mean lambda-2021-08"):
        load("lambda-2021")


def test_the_tables_figures_are_cut_off_and_not_rounded() -> None:
    figure = next(r for r in figures(NAME) if r.id == f"{NAME}/fp32/8x-rtx-a6000/ssd300-resnet50")
    assert reads_as_printed(figure, 1057, 1057.756)
    assert reads_as_printed(figure, 1057, 1057)
    assert not reads_as_printed(figure, 1057, 1058)
    assert not reads_as_printed(figure, 1057, 1056.9)
