"""From published rows to Jobs here: what changes, what is missing, what can run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelmark import published
from accelmark.engines import available
from accelmark.networks.registry import catalog
from accelmark.run.reproduce import count_runnable, look, reproduce
from accelmark.system import Accelerator, Cpu, System
from tests.run.conftest import Run, accelmark, records  # noqa: F401 - a fixture

CPU = System(
    name="a CPU", accelerator=Accelerator(name="a CPU", kind="cpu", count=2), cpu=Cpu(name="a CPU", cores=2)
)
EIGHT = System(
    name="A100-SXM4-80GB",
    accelerator=Accelerator(name="A100-SXM4-80GB", kind="cuda", count=8, compute_capability="8.0"),
)


def test_every_row_resolves_to_jobs_of_its_network_with_its_conditions() -> None:
    for record in published.load("published"):
        plans = reproduce(record, CPU)
        assert plans
        for plan in plans:
            if "networks" in record.job.parameters:
                assert plan.job.network in str(record.job.parameters["networks"])
            else:
                assert plan.job.network == record.job.network
            scenario = "training" if record.job.scenario == "time-to-quality" else record.job.scenario
            assert plan.job.scenario == scenario
            assert plan.job.accelerators == record.job.accelerators
            assert plan.job.precision == (record.job.precision or "fp32")
            if record.job.batch_size is not None:
                assert plan.job.batch_size == record.job.batch_size
            if plan.job.network not in catalog():
                assert f"network not in this build yet: {plan.job.network}" in plan.missing


def test_one_row_in_words() -> None:
    (plan,) = reproduce(published.find("nvidia-2021-04/176"), EIGHT)
    assert (plan.job.network, plan.job.precision, plan.job.batch_size) == ("mask-rcnn-r50-fpn", "tf32", 8)
    assert [str(change) for change in plan.changes] == ["data: COCO 2014 there, synthetic here"]
    assert plan.missing == ()


def test_what_is_missing_is_said_all_at_once() -> None:
    (plan,) = reproduce(published.find("nvidia-2021-04/64"), CPU)
    assert plan.missing[0] == "needs 8 accelerators, 0 here"
    assert plan.missing[1].startswith("precision fp16: emulated here")
    assert len(plan.missing) == 2
    (plan,) = reproduce(published.find("nvidia-2021-04/666"), CPU)
    assert plan.missing[0] == "scenario not in this build yet: speech-recognition"


def test_of_a_run_to_a_quality_the_training_is_repeated() -> None:
    (plan,) = reproduce(published.find("nvidia-2021-04/30"), EIGHT)
    assert plan.job.parameters == {"task": "pre-training-mlperf"}
    assert (plan.job.sequence_length, plan.job.accelerators, plan.missing) == (512, 8, ())
    assert str(plan.changes[0]) == (
        "scenario: time to quality there, training, without reaching the quality here"
    )


def test_a_ratio_is_one_job_for_each_of_its_networks() -> None:
    plans = reproduce(published.find("lambda-2021-08/24"), EIGHT)
    assert [(plan.job.network, plan.job.size, plan.job.accelerators, plan.rule) for plan in plans] == [
        ("transformer-xl-base", "full-softmax", 8, "max"),
        ("transformer-xl-large", "full-softmax", 8, "max"),
    ]
    assert not any(plan.missing for plan in plans)


def test_small_the_job_fits_this_machine_and_every_change_is_said() -> None:
    plans = reproduce(published.find("lambda-2021-08/20"), CPU, "tiny")
    for plan in plans:
        assert not plan.missing
        assert (plan.job.size, plan.job.precision, plan.job.accelerators) == ("tiny", "fp32", 2)
        assert plan.rule is None
        assert {change.name for change in plan.changes} >= {"size", "accelerators", "precision", "batch_size"}


def test_a_size_that_a_network_does_not_have() -> None:
    (plan,) = reproduce(published.find("nvidia-2021-04/176"), EIGHT, "huge")
    assert plan.missing == ("mask-rcnn-r50-fpn has no size huge; it has full, tiny",)


def test_counts_of_what_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "find_spec", lambda name: "installed")
    records = published.load("published")
    inference = [r for r in records if r.job.scenario == "inference"]
    assert len(inference) == 106
    here = count_runnable(records, CPU)
    # Whole, in integers: a CPU has these, without TF32, fp16 or seven parts.
    whole = [r for r in inference if r.job.partition is None and r.job.precision == "int8"]
    assert (here.rows, here.resolved, here.here) == (533, 533, len(whole))
    single = [
        r
        for r in records
        if r.job.scenario in ("training", "time-to-quality")
        and (r.job.network in catalog() or r.metrics.ratio is not None)
    ]
    assert here.small == len(single) + len(inference)
    fractions = [r for r in inference if r.job.partition in (None, "1/7")]
    assert len(fractions) == 105
    there = count_runnable(records, EIGHT).here
    assert there == sum(r.job.accelerators <= 8 for r in single) + len(fractions)


def test_a_look_at_the_machine_finds_what_computes() -> None:
    system = look()
    assert system.accelerator.kind in ("cpu", "cuda")
    assert system.accelerator.count >= 1


def test_the_dry_run_of_every_kind_of_row(accelmark: Run) -> None:  # noqa: F811
    lines = {r.job.scenario: r.id for r in published.load("published")}
    for identity in [*lines.values(), "lambda-2021-08/9"]:
        told = json.loads(accelmark("reproduce", identity, "--dry-run", "--json").stdout)
        assert told
        assert told[0]["record"] == identity
    text = accelmark("reproduce", "nvidia-2021-04/176", "--dry-run").stdout
    assert "as published: PyTorch | Mask R-CNN | 29 images/sec" in text
    assert "data: COCO 2014 there, synthetic here" in text


def test_a_row_runs_small_and_stands_beside_its_source(
    accelmark: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    row = next(
        r.id
        for r in published.load("nvidia-2021-04")
        if r.job.network == "resnet50-v1.5" and r.job.scenario == "training"
    )
    result = accelmark("reproduce", row, "--size", "tiny", "--time-budget", "1s", "--out", "r")
    assert result.returncode == 0, result.stderr
    assert "size tiny ≠ full" in result.stdout
    assert "no pair is comparable" in result.stdout
    assert records(tmp_path / "r")["resnet50-v1.5"]["job"]["size"] == "tiny"


def test_wrong_words_are_one_sentence(accelmark: Run) -> None:  # noqa: F811
    for words, code, message in (
        (("nvidia-2021-04/500",), 2, "line 500 of nvidia-2021-04 holds no figure"),
        (("nvidia-2021-04",), 2, "holds 525 Records"),
        (("nothing",), 4, "nothing does not exist"),
        (("nvidia-2021-04/666",), 1, "cannot be repeated here: scenario not in this build yet"),
    ):
        result = accelmark("reproduce", *words)
        assert result.returncode == code, result.stderr
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("identity", ["nvidia-2021-04/176", "nvidia-2021-04/463", "lambda-2021-08/9"])
def test_a_published_row_shown_in_full(accelmark: Run, identity: str) -> None:  # noqa: F811
    result = accelmark("show", identity)
    assert result.returncode == 0
    assert f"accelmark reproduce {identity}" in result.stdout
    assert "origin.row" in result.stdout
    assert json.loads(accelmark("show", identity, "--json").stdout)[0]["id"] == identity
