"""`accelmark compare --with`: golden output, JSON, exit codes, and the real logs beside the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelmark.errors import EXIT_INCONCLUSIVE, EXIT_MEASUREMENT_FAILED, UnreadableInputError, UsageError
from accelmark.record import Metrics, Record, Source, Status
from accelmark.store import Store
from accelmark.system import Accelerator, System
from tests import records
from tests.cli.test_compare import call, error, good
from tests.records import record

MLPERF = Path(__file__).resolve().parents[3] / "shared" / "mlperf"


OURS = System(name="ours", accelerator=Accelerator(name="ours"))


def measured(identity: str, rates: list[float], system: System = OURS, **changes: Any) -> Record:
    return records.measured(identity, rates, system=system, **changes)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Ours, with an equal load, another batch and a failure; and theirs on another board."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    base = measured("base", [100.0, 100.5, 99.5], system=System(name="b", accelerator=Accelerator(name="b")))
    new = measured("new", [150.0, 150.5, 149.5])
    Store(theirs).write(base)
    Store(ours).write(new)
    Store(ours).write(
        measured("other-batch", [90.0, 91, 92], job=new.job.model_copy(update={"batch_size": 16}))
    )
    Store(ours).write(measured("elsewhere", [9.0, 9, 9], job=new.job.model_copy(update={"network": "dlrm"})))
    Store(ours).write(record("crashed", status=Status.CRASHED))
    return ours, theirs


def test_pairs_on_the_terminal(folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    assert good("compare", ours, "--with", theirs).splitlines() == [
        "Record                                       figure  with  accelerator                figure  "
        "ratio of     ratio  95 % interval   note",
        "resnet50-v1.5 fp32 batch 8 1x  150.0 ± 1.2 images/s  base  b            100.0 ± 1.2 images/s  "
        "throughput  1.500x  1.484 to 1.516  accelerator ours ≠ b",
        "",
        "1 comparable pairs, geometric mean 1.500x (95 % interval 1.484 to 1.516): 1 faster, 0 slower, "
        "0 within the interval, 0 without an interval",
        "",
        "Not comparable, with the nearest:",
        "",
        "Record                          with  because",
        "resnet50-v1.5 fp32 batch 16 1x  base  batch size 16 ≠ 8",
        "note: elsewhere: nothing of dlrm, training, to compare with",
        "note: crashed is left out: crashed",
    ]


def test_what_is_allowed_is_said(folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    text = good("compare", ours, "--with", theirs, "--allow", "batch_size")
    assert "allowed: batch size 16 ≠ 8" in text
    assert "2 comparable pairs" in text
    assert "cannot" not in text
    assert "--allow 'batch' is no condition" in error(
        UsageError, "compare", ours, "--with", theirs, "--allow", "batch"
    )


def test_json_has_what_the_table_has(folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    told = json.loads(good("compare", ours, "--with", theirs, "--json"))
    assert told["summary"]["pairs"] == 1
    pair = next(pair for pair in told["pairs"] if pair["comparable"])
    assert pair["record"] == "new"
    assert pair["ratios"]["throughput"]["ratio"] == pytest.approx(1.5)
    assert pair["ratios"]["throughput"]["spread_of"] == "both"
    other = next(pair for pair in told["pairs"] if not pair["comparable"])
    assert (other["record"], other["not_comparable"]) == ("other-batch", ["batch size 16 ≠ 8"])
    assert told["nothing_to_compare_with"] == ["elsewhere"]
    assert told["not_usable"] == {"crashed": "crashed"}


@pytest.mark.parametrize(
    ("rates", "status", "code"),
    [
        ([94.0, 94.1, 93.9], Status.OK, EXIT_MEASUREMENT_FAILED),
        ([94.0, 96, 98], Status.OK, 0),
        ([100.0, 100.1, 99.9], Status.OK, 0),
        ([94.0, 94.1, 93.9], Status.NOISY, EXIT_INCONCLUSIVE),
    ],
)
def test_the_guards_exit_codes(tmp_path: Path, rates: list[float], status: Status, code: int) -> None:
    Store(tmp_path / "base").write(measured("base", [100.0, 100.01, 99.99]))
    Store(tmp_path / "new").write(measured("new", rates, status=status))
    result = call("compare", tmp_path / "new", "--with", tmp_path / "base", "--fail-below", "0.95")
    assert result.exit_code == code, result.stdout


def test_a_guard_with_nothing_to_compare_cannot_tell(tmp_path: Path) -> None:
    Store(tmp_path / "base").write(measured("base", [100.0, 100, 100]))
    new = measured("new", [50.0, 50, 50])
    Store(tmp_path / "new").write(new.replace(job=new.job.model_copy(update={"batch_size": 1})))
    result = call("compare", tmp_path / "new", "--with", tmp_path / "base", "--fail-below", "0.95")
    assert result.exit_code == EXIT_INCONCLUSIVE
    assert "inconclusive: no pair is comparable" in result.stdout


def test_wrong_words_are_one_sentence(folders: tuple[Path, Path], tmp_path: Path) -> None:
    ours, theirs = folders
    assert "give a folder of Records" in error(UsageError, "compare", "--with", "published")
    assert "does not exist" in error(UnreadableInputError, "compare", ours, "--with", tmp_path / "nothing")
    assert "for pairs" in error(UsageError, "compare", ours, "--fail-below", "0.9")
    assert "pairs have a geometric mean" in error(
        UsageError, "compare", ours, "--with", theirs, "--mean", "arithmetic"
    )
    assert "draws no averages" in error(UsageError, "compare", "--published", "nvidia-2021-04")


def test_prices_are_named_with_their_date(folders: tuple[Path, Path], tmp_path: Path) -> None:
    ours, theirs = folders
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: EUR, date: 2026-11-30, per: hour, prices: {ours: 3, b: 1}}")
    text = good("compare", ours, "--with", theirs, "--prices", prices)
    assert "per price: throughput per EUR per hour, prices of 2026-11-30" in text
    assert "0.500x" in text


def test_own_records_with_the_published_rows_normalised(tmp_path: Path) -> None:
    """--with and --normalize-to: one's own beside the study's figures, over the same reference."""
    new = measured("new", [471.0, 471, 471])
    job = new.job.model_copy(update={"precision": "fp16", "batch_size": 224})
    Store(tmp_path / "r").write(new.replace(job=job))
    told = json.loads(
        good(
            "compare",
            tmp_path / "r",
            "--with",
            "published",
            "--normalize-to",
            "RTX 3090:32-bit",
            "--group",
            "resnet=resnet50-v1.5@full",
            "--json",
        )
    )
    entry = next(ratio for ratio in told if ratio["numerator"] == "ours")
    assert entry["normalised"]["numerator"] == 1.0


def test_the_logs_of_mlperf_training_give_the_pages_minutes(tmp_path: Path) -> None:
    if not (MLPERF / "training_v0.7").is_dir():
        pytest.skip("the shared data is not beside this checkout")
    good("import", "mlperf-training", MLPERF / "training_v0.7", "--out", tmp_path / "r")
    told = json.loads(good("compare", tmp_path / "r", "--with", "published", "--json"))
    repeats = {pair["with"]: pair["agrees_as_printed"] for pair in told["pairs"] if pair["repeats"]}
    assert repeats == {
        f"nvidia-2021-04/{line}": True for line in (22, 23, 27, 31, 35, 36, 40, 44, 46, 51, 52, 55)
    }
    assert told["summary"]["repeats_that_agree"] == 12


def test_the_logs_of_mlperf_inference_give_the_pages_rows(tmp_path: Path) -> None:
    if not (MLPERF / "inference_v1.0").is_dir():
        pytest.skip("the shared data is not beside this checkout")
    good("import", "mlperf-inference", MLPERF / "inference_v1.0", "--out", tmp_path / "r")
    told = json.loads(good("compare", tmp_path / "r", "--with", "published", "--json"))
    repeats = [pair for pair in told["pairs"] if pair["repeats"]]
    # 44 rows; both targets of 3D-UNet are one run, which the page prints once.
    assert len({pair["with"] for pair in repeats}) == 44
    assert all(pair["agrees_as_printed"] for pair in repeats)


def test_imported_and_published_are_no_measurements(tmp_path: Path) -> None:
    """A figure without spread on both sides has a ratio and no interval."""
    ours = measured("ours", [100.0, 100, 100]).replace(source=Source.IMPORTED)
    bare = Metrics(throughput=ours.metrics.throughput.model_copy(update={"ci95": None}))  # type: ignore[union-attr]
    Store(tmp_path / "a").write(ours.replace(metrics=bare))
    Store(tmp_path / "b").write(ours.replace(id="b", metrics=bare))
    told = json.loads(good("compare", tmp_path / "a", "--with", tmp_path / "b", "--json"))
    assert told["pairs"][0]["ratios"]["throughput"] == {"ratio": 1.0, "ci95": None, "spread_of": "neither"}
    assert told["summary"]["undecided"] == 1
