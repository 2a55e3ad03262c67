"""`list published`, `audit`, `choose` and `import`, as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from accelmark import published
from accelmark.cli.audit import audit
from accelmark.cli.choose import choose
from accelmark.cli.import_ import import_
from accelmark.cli.list import list_
from accelmark.cli.publications import COLUMNS, row
from accelmark.cli.show import show
from accelmark.errors import EXIT_MEASUREMENT_FAILED, AccelmarkError, UnreadableInputError, UsageError
from accelmark.store import Store
from tests.records import record

SHARED = Path(__file__).resolve().parents[3] / "shared"

app = typer.Typer()
for name, verb in (
    ("list", list_),
    ("audit", audit),
    ("choose", choose),
    ("import", import_),
    ("show", show),
):
    app.command(name)(verb)


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def good(*words: object) -> str:
    result = call(*words)
    assert result.exception is None, result.exception
    return result.stdout


def error(kind: type[AccelmarkError], *words: object) -> str:
    result = call(*words)
    assert isinstance(result.exception, kind), result.exception
    return str(result.exception)


def test_533_entries() -> None:
    entries = json.loads(good("list", "published", "--json"))
    assert len(entries) == 533
    assert len({entry["id"] for entry in entries}) == 533


def test_rows_by_network_scenario_and_board() -> None:
    words = ("list", "published", "--network", "bert-large", "--scenario", "server", "--accelerator", "A100")
    lines = good(*words).splitlines()
    assert len(lines) == 1 + 8 + 2
    assert all("A100" in line and "within 130 ms" in line for line in lines[1:6])
    assert lines[-1].startswith("8 rows")
    exact = json.loads(good("list", "published", "--accelerator", "NVIDIA A10", "--json"))
    assert {entry["system"]["name"] for entry in exact} == {"A10"}


def test_how_many_rows_can_run() -> None:
    counts = json.loads(good("list", "published", "--runnable", "--json"))
    assert (counts["rows"], counts["resolved"]) == (533, 533)
    assert counts["runnable_small"] >= counts["runnable_here"]
    # The 209 rows of the training tables and the eight ratios.
    assert counts["runnable_small"] >= 217


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("list", "published", "--network", "bert-larg"),
            "unknown published network 'bert-larg'; did you mean",
        ),
        (("list", "published", "--scenario", "servr"), "did you mean server"),
        (("list", "published", "--accelerator", "B300"), "unknown published accelerator"),
        (("list", "networks", "--network", "x"), "are for accelmark list published"),
        (("audit", "published", "--severity", "fatal"), "unknown severity"),
        (("audit", "published", "--fail-on", "fatal"), "unknown severity"),
        (("choose", "--network", "bert-larg", "--qps", "1"), "did you mean bert-large"),
        (("choose", "--network", "bert-large", "--qps", "0"), "more than 0"),
        (("choose", "--network", "bert-large", "--qps", "1", "--own-only"), "give a folder of Records"),
        (("choose", "--network", "vae-cf", "--qps", "1"), "there are: time-to-quality, training"),
        (
            ("choose", "--network", "bert-large", "--qps", "1", "--latency", "1"),
            "it was measured under a bound of",
        ),
        (("import", "mlperf", "x"), "unknown format 'mlperf'; did you mean mlperf-training"),
    ],
)
def test_wrong_words_are_one_sentence(words: tuple[str, ...], message: str) -> None:
    text = error(UsageError, *words)
    assert message in text
    assert "\n" not in text


def test_the_audit_names_the_faults_of_the_page_and_its_exit_code() -> None:
    assert call("audit", "published", "--fail-on", "error").exit_code == EXIT_MEASUREMENT_FAILED
    findings = json.loads(good("audit", "published", "--json"))
    grave = [finding for finding in findings if finding["severity"] != "note"]
    named = {identity for finding in grave for identity in finding["records"]}
    # 757 is the heading of the table whose first row, with 157.62 ms, is line 758.
    lines = [666, 717, 583, *range(504, 514), 603, 604, 606, 607, 135, 758, 175, *range(353, 360)]
    assert named >= {f"nvidia-2021-04/{line}" for line in lines}
    assert all(finding["rule"] and finding["expected"] and finding["found"] for finding in grave)
    assert "5 errors, 9 warnings, 1 notes" in good("audit", "published")


def test_the_audit_of_sound_records(tmp_path: Path) -> None:
    Store(tmp_path).write(record())
    assert good("audit", tmp_path) == "1 Records: 0 errors, 0 warnings, 0 notes\n"


def test_choosing_with_prices(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: USD, date: 2026-11-30, per: hour, prices: {A30: 0.5, A100-SXM4-80GB: 2}}")
    words = ("choose", "--network", "bert-large", "--latency", "130", "--qps", "20000", "--prices", prices)
    choices = json.loads(good(*words, "--json"))
    assert (choices[0]["record"], choices[0]["accelerators"], choices[0]["price"]) == (
        "nvidia-2021-04/392",
        16,
        8.0,
    )
    assert choices[0]["price_of"] == "USD per hour, prices of 2026-11-30"
    assert "linear scaling" in choices[0]["assumptions"][0]
    text = good(*words)
    assert "price: USD per hour, prices of 2026-11-30" in text
    assert "nvidia-2021-04/392" in text


def test_a_row_with_a_doubt_says_so() -> None:
    text = good("show", "nvidia-2021-04/666")
    assert "Quartznet | 256 | 254.3 | 64 | A100 SXM4-40GB" in text
    assert "doubt" in text
    assert "paced-streams" in text


@pytest.mark.parametrize(
    ("format", "path", "count"),
    [
        ("mlperf-training", "mlperf/training_v0.7", 12),
        ("mlperf-inference", "mlperf/inference_v1.0", 64),
        ("lambda-csv", "lambda/csv-2021-07", 1497),
        ("lambda-logs", "lambda/results", 50),
    ],
)
def test_every_format_is_imported_and_shown(tmp_path: Path, format: str, path: str, count: int) -> None:
    if not (SHARED / path).is_dir():
        pytest.skip("the shared data is not beside this checkout")
    assert f"{count} Records from" in good("import", format, SHARED / path, "--out", tmp_path)
    text = good("audit", tmp_path, "--severity", "error", "--fail-on", "error")
    assert f"{count:,} Records: 0 errors" in text


def test_a_folder_without_anything_known_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here\n")
    for format in ("mlperf-training", "mlperf-inference", "lambda-csv", "lambda-logs", "dllogger"):
        text = error(UnreadableInputError, "import", format, tmp_path, "--out", tmp_path / "r")
        assert "\n" not in text
        assert not (tmp_path / "r").exists()
        error(UnreadableInputError, "import", format, tmp_path / "none", "--out", tmp_path / "r")


def test_every_printed_row_can_be_found_by_its_id() -> None:
    for each in published.load("published")[::25]:
        assert published.find(each.id) == each


def test_every_listed_figure_is_the_records() -> None:
    for each in published.load("published"):
        cells = dict(zip(COLUMNS, row(each), strict=True))
        metrics = each.metrics
        figures = [figure for figure in cells["figure"].split("; ") if figure]
        wanted = [
            (metrics.time_to_train_min, "min"),
            (metrics.throughput and metrics.throughput.value, metrics.throughput and metrics.throughput.unit),
            (metrics.ratio, "RTX 3090"),
        ]
        found = [(float(re.match(r"[\d.,]+", figure)[0].replace(",", "")), figure) for figure in figures]  # type: ignore[index]
        expected = [(value, unit) for value, unit in wanted if value is not None]
        assert [value for value, _ in found] == [value for value, _ in expected], each.id
        assert all(figure.endswith(str(unit)) for (_, figure), (_, unit) in zip(found, expected, strict=True))
        if metrics.latency_ms is not None:
            assert cells["latency"] == f"{metrics.latency_ms.mean:g} ms"
        if metrics.efficiency is not None:
            assert float(cells["per watt"].partition(" ")[0]) == metrics.efficiency.value
        assert cells["batch"] == str(each.job.batch_size or "")
        assert cells["accelerators"].startswith(f"{each.job.accelerators}x ")
