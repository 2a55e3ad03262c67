"""What keeps two Records from being compared, in words."""

from __future__ import annotations

from typing import Any

import pytest

from accelmark.compare.conditions import check_allowed, compare_conditions
from accelmark.errors import UsageError
from accelmark.job import Job
from accelmark.record import Metrics, Quality, Record, Source, Status, Throughput
from tests.records import record

OTHER: dict[str, Any] = {"source": Source.PUBLISHED}


def job(**changes: Any) -> Job:
    return record("a").job.model_copy(update=changes)


def words(ours: Record, theirs: Record, *allow: str) -> list[str]:
    return [str(difference) for difference in compare_conditions(ours, theirs, allow).blocking]


def test_equal_loads_are_comparable_on_any_board() -> None:
    conditions = compare_conditions(record("a"), record("b"))
    assert conditions.comparable
    assert (conditions.lifted, conditions.means, conditions.not_stated) == ((), (), ())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batch_size": 408}, "batch size 8 ≠ 408"),
        ({"size": "tiny"}, "size full ≠ tiny"),
        ({"precision": "tf32"}, "precision fp32 ≠ tf32"),
        ({"accelerators": 8}, "accelerators 1 ≠ 8"),
        ({"scenario": "inference"}, "scenario training ≠ inference"),
        ({"sequence_length": 128}, "sequence length none ≠ 128"),
        ({"partition": "1g.10gb"}, "partition none ≠ 1g.10gb"),
        ({"parameters": {"task": "squad"}}, "task none ≠ squad"),
        ({"parameters": {"latency_bound_ms": 7}}, "latency bound ms none ≠ 7"),
        ({"parameters": {"gradient_accumulation": 4}}, "gradient accumulation 1 ≠ 4"),
    ],
)
def test_each_condition_of_the_load_blocks_and_can_be_allowed(changes: dict[str, Any], expected: str) -> None:
    other = record("b", job=job(**changes))
    assert words(record("a"), other) == [expected]
    name = next(iter(changes.get("parameters", changes)))
    conditions = compare_conditions(record("a"), other, [name])
    assert conditions.comparable
    assert [str(difference) for difference in conditions.lifted] == [expected]


def test_what_a_source_does_not_state_is_said_and_does_not_block() -> None:
    other = record("b", job=job(batch_size=None, precision=None), **OTHER)
    conditions = compare_conditions(record("a"), other)
    assert conditions.comparable
    assert set(conditions.not_stated) == {"batch_size", "precision"}


def test_a_task_left_unsaid_is_another_task() -> None:
    other = record("b", job=job(parameters={"task": "squad"}), **OTHER)
    assert words(record("a", **OTHER), other) == ["task none ≠ squad"]


def test_how_a_batch_was_found_is_no_condition() -> None:
    other = record("b", job=job(parameters={"batch_size_rule": "max", "batch_size_bound": "memory"}))
    assert compare_conditions(record("a"), other).comparable


def test_footnoted_conditions_block_where_both_state_them() -> None:
    ours = record("a", conditions={"power_run": True, "peer": "on"}, **OTHER)
    theirs = record("b", conditions={"power_run": False}, **OTHER)
    assert words(ours, theirs) == ["power run yes ≠ no"]


def test_units_never_mix_and_cannot_be_allowed() -> None:
    other = record("b", metrics=Metrics(throughput=Throughput(value=1, unit="tokens/s")))
    assert words(record("a"), other) == ["unit images/s ≠ tokens/s"]
    with pytest.raises(UsageError, match="--allow unit: a ratio over different units"):
        check_allowed(["unit"], [record("a"), other])


def test_a_condition_that_nothing_has_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"--allow 'bach_size' is no condition.*batch_size"):
        check_allowed(["bach_size"], [record("a")])


def test_a_result_that_is_none_is_not_comparable() -> None:
    assert words(record("a"), record("b", status=Status.CRASHED)) == ["status ok ≠ crashed"]


def test_minutes_to_another_quality_are_another_job() -> None:
    def converged(identity: str, value: float, **parameters: str) -> Record:
        return record(
            identity,
            job=job(scenario="time-to-quality", parameters=parameters),
            metrics=Metrics(time_to_train_min=10, quality=[Quality(metric="top-1 accuracy, %", value=value)]),
        )

    assert words(converged("a", 75.9), converged("b", 77.0)) == [
        "quality top-1 accuracy, % 75.9 ≠ top-1 accuracy, % 77"
    ]
    # A rule book fixes the target; what was reached above it does not count.
    rules = {"rules": "mlperf-training-0.7"}
    assert words(converged("a", 75.9, **rules), converged("b", 76.1, **rules)) == []
