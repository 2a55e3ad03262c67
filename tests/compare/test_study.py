"""A study's arithmetic: known ratios come out exactly, and no average hides what is missing."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelmark.compare.study import (
    Comparison,
    Ratio,
    Row,
    compare,
    normalise,
    parse_reference,
    ratios,
    select,
)
from accelmark.errors import UsageError
from accelmark.importers.lambda_csv import read
from accelmark.job import Job
from accelmark.published import SETS
from accelmark.record import Metrics, Record, Source, Status, Throughput
from accelmark.system import Accelerator, System

TABLES = Path(__file__).resolve().parents[3] / "shared" / "lambda" / "csv-2021-07"
GROUPS = {"both": ("resnet", "bert")}


def make(
    network: str,
    value: float | None,
    system: str = "Old",
    *,
    accelerators: int = 1,
    precision: str | None = "fp32",
    size: str = "full",
    half: float | None = None,
    unit: str = "images/s",
    status: Status = Status.OK,
    started_at: datetime | None = None,
    name: str = "",
    **job: Any,
) -> Record:
    throughput = None
    if value is not None:
        ci95 = (value * (1 - half), value * (1 + half)) if half is not None else None
        throughput = Throughput(value=value, unit=unit, ci95=ci95)
    return Record(
        id=name or f"{system}-{accelerators}-{precision}-{network}-{size}",
        source=Source.MEASURED,
        status=status,
        started_at=started_at,
        job=Job(network=network, size=size, precision=precision, accelerators=accelerators, **job),
        system=System(name=system, accelerator=Accelerator(name=system, count=accelerators)),
        metrics=Metrics(throughput=throughput),
    )


def old() -> list[Record]:
    return [make("resnet", 100), make("bert", 10), make("resnet", 300, precision="fp16")]


def only(comparison: Comparison) -> Ratio:
    (ratio,) = comparison.ratios
    return ratio


def row(records: list[Record], **where: Any) -> Row:
    (found,) = [
        row
        for row in normalise(records, "Old:fp32", GROUPS).rows
        if all(getattr(row, name) == value for name, value in where.items())
    ]
    return found


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"Lambda's tables are not here ({TABLES})")
def test_lambdas_eight_ratios_come_out_of_its_tables() -> None:
    study = SETS["lambda-2021-08"].study
    assert study is not None
    records, _ = read(TABLES)
    found = {
        (ratio.numerator.group, ratio.numerator.accelerators, ratio.numerator.precision): ratio.value
        for ratio in compare(records, "RTX 3090:fp32", study.groups, ["RTX A6000"]).ratios
        if ratio.numerator.accelerators in (1, 8)
    }
    assert {key: round(value, 2) for key, value in found.items() if value} == {
        ("convnets", 1, "32-bit"): 0.92,
        ("convnets", 1, "mixed"): 1.01,
        ("convnets", 8, "32-bit"): 1.13,
        ("convnets", 8, "mixed"): 1.14,
        ("language models", 1, "32-bit"): 1.34,
        ("language models", 1, "mixed"): 1.34,
        ("language models", 8, "32-bit"): 1.36,
        ("language models", 8, "mixed"): 1.33,
    }


def test_a_ratio_by_hand() -> None:
    records = [*old(), make("resnet", 150, "New"), make("bert", 30, "New")]
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert ratio.numerator.average == (1.5 + 3) / 2
    assert ratio.denominator is not None
    assert ratio.denominator.average == 1
    assert ratio.value == 2.25
    assert (ratio.numerator.precision, ratio.numerator.exact) == ("32-bit", "fp32")
    assert not ratio.missing
    assert not ratio.notes


def test_eight_accelerators_are_normalised_to_one_and_divided_by_eight() -> None:
    records = [
        *old(),
        make("resnet", 800, accelerators=8),
        make("bert", 40, accelerators=8),
        make("resnet", 400, "New", accelerators=8),
        make("bert", 80, "New", accelerators=8),
    ]
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert ratio.denominator is not None
    assert (ratio.numerator.average, ratio.denominator.average) == (6.0, 6.0)
    assert ratio.value == 1.0
    # The ratio of averages is not the average of ratios, which would be 1.25.


@given(st.floats(0.01, 100), st.floats(1e-3, 1e9), st.integers(1, 3))
def test_ratios_scale_with_the_numerator_and_not_with_units(factor: float, unit: float, network: int) -> None:
    base = [make(f"n{i}", unit**i * (i + 1), half=0.01) for i in range(2)]
    new = [make(f"n{i}", unit**i * (i + 2) * factor, "New", half=0.01) for i in range(2)]
    ratio = only(compare([*base, *new], "Old:fp32", {"g": ("n0", "n1")}))
    assert ratio.value == pytest.approx((2 + 1.5) / 2 * factor)
    assert ratio.ci95 is not None
    assert ratio.ci95[0] < ratio.value < ratio.ci95[1]


def test_a_missing_network_leaves_no_average() -> None:
    found = row([*old(), make("resnet", 150, "New")], system="New")
    assert found.average is None
    assert found.ci95 is None
    assert found.missing == ("bert: no Record",)
    assert [value.value for value in found.values] == [1.5]
    ratio = only(compare([*old(), make("resnet", 150, "New")], "Old:fp32", GROUPS))
    assert ratio.value is None
    assert ratio.missing == ("New: bert: no Record",)


def test_a_network_that_the_reference_lacks_leaves_no_average() -> None:
    records = [make("resnet", 100), make("resnet", 150, "New"), make("bert", 30, "New")]
    assert row(records, system="New").missing == ("bert: no Record of the reference Old:fp32",)
    assert row(records, system="Old").average is None


def test_a_denominator_that_is_missing_is_named() -> None:
    records = [*old(), make("resnet", 1, "New", accelerators=8), make("bert", 1, "New", accelerators=8)]
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert ratio.denominator is None
    assert ratio.value is None
    assert ratio.ci95 is None
    assert ratio.missing == ("Old: no Record at these accelerators and this precision",)
    half = [*records, make("bert", 1, accelerators=8)]
    assert only(compare(half, "Old:fp32", GROUPS)).missing == ("Old: resnet: no Record",)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (make("bert", 30, "New", status=Status.OUT_OF_MEMORY), "the status is out_of_memory"),
        (make("bert", 30, "New", status=Status.NOT_STATIONARY), "the status is not_stationary"),
        (make("bert", None, "New"), "there is no throughput"),
    ],
)
def test_records_that_are_no_results_are_left_out_and_said(record: Record, why: str) -> None:
    normalised = normalise([*old(), make("resnet", 150, "New"), record], "Old:fp32", GROUPS)
    (found,) = [r for r in normalised.rows if r.system == "New"]
    assert found.missing == (f"bert: {why}",)
    assert f"left out, because {why}: 1 Record ({record.id})" in normalised.notes


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"scenario": "inference"}, "scenario is inference"), ({"precision": None}, "precision is not known")],
)
def test_other_work_is_left_out_and_said(changes: dict[str, Any], why: str) -> None:
    records = [*old(), make("resnet", 150, "New"), make("bert", 30, "New", **changes)]
    normalised = normalise(records, "Old:fp32", GROUPS)
    assert any(why in note for note in normalised.notes)
    (found,) = [r for r in normalised.rows if r.system == "New"]
    assert found.missing == ("bert: no Record",)


def test_noisy_records_count() -> None:
    records = [*old(), make("resnet", 150, "New"), make("bert", 30, "New", status=Status.NOISY)]
    assert row(records, system="New").average == 2.25
    strict = normalise(records, "Old:fp32", GROUPS, statuses={Status.OK})
    assert [r.average for r in strict.rows if r.system == "New"] == [None]


def test_tiny_is_never_compared_with_full() -> None:
    records = [*old(), make("resnet", 150, "New"), make("bert", 30, "New", size="tiny")]
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert ratio.value is None
    assert ratio.missing == ("New: bert: not comparable: size tiny, not full",)
    tiny = [make("bert", 5, size="tiny"), make("resnet", 60, size="tiny")]
    both = [*records, *tiny, make("resnet", 120, "New", size="tiny"), make("bert", 40, "New")]
    found = {r.numerator.group: r.value for r in compare(both, "Old:fp32", GROUPS).ratios}
    assert found == {"both": (1.5 + 4) / 2, "both (tiny)": (2 + 6) / 2}


def test_groups_that_mix_or_repeat_are_refused() -> None:
    with pytest.raises(UsageError, match="mixes tiny networks with others"):
        compare(old(), "Old:fp32", {"g": ("resnet@full", "bert@tiny")})
    with pytest.raises(UsageError, match="names a network twice"):
        compare(old(), "Old:fp32", {"g": ("resnet", "resnet@full")})
    with pytest.raises(UsageError, match=r"sizes full, full-softmax; say which, such as bert@full"):
        compare([*old(), make("bert", 3, size="full-softmax")], "Old:fp32", GROUPS)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"unit": "images/s"}, {"unit": "batches/s"}, "unit batches/s ≠ images/s"),
        ({}, {"parameters": {"task": "squad"}}, "task squad ≠ none"),
        ({"network_version": 1}, {"network_version": 2}, "network version 2 ≠ 1"),
        ({}, {"value": 1e200}, "the throughputs are a factor of more than 1e100 apart"),
    ],
)
def test_other_work_under_one_name_is_not_divided(
    one: dict[str, Any], other: dict[str, Any], why: str
) -> None:
    records = [
        make("resnet", 100),
        make("bert", **{"value": 10, **one}),
        make("resnet", 150, "New"),
        make("bert", **{"value": 30, "system": "New", **other}),
    ]
    assert row(records, system="New").missing == (f"bert: not comparable: {why}",)


def test_the_newest_of_several_records_wins_and_says_so() -> None:
    at = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    found = [
        make("bert", 30, "New", started_at=at[1], name="second", batch_size=8),
        make("bert", 50, "New", started_at=at[2].replace(tzinfo=None), name="third", batch_size=16),
        make("bert", 40, "New", started_at=at[0], name="first", batch_size=8),
        make("bert", 99, "New", name="undated"),
    ]
    new = row([*old(), make("resnet", 150, "New"), *found], system="New")
    assert new.average == (1.5 + 5) / 2
    assert new.notes == (
        "bert full on 1x New at fp32 has 4 Records: the newest, third, is used; they differ in batch_size",
    )


def test_the_last_read_of_several_undated_records_wins() -> None:
    new = row(
        [*old(), make("resnet", 1, "New"), make("bert", 1, "New"), make("resnet", 200, "New")], system="New"
    )
    assert new.values[0].value == 2
    assert "has 2 Records: the last read" in new.notes[0]


def test_precisions_of_one_class_are_one_row_unless_a_system_has_both() -> None:
    records = [
        *old(),
        make("resnet", 200, "New", precision="tf32"),
        make("bert", 20, "New", precision="tf32"),
    ]
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert (ratio.numerator.precision, ratio.numerator.exact) == ("32-bit", "tf32")
    assert ratio.value == 2
    assert ratio.notes == ("New ran tf32, Old fp32",)
    both = [*records, make("resnet", 110, "New"), make("bert", 11, "New")]
    found = [(r.numerator.precision, r.value, r.notes) for r in compare(both, "Old:fp32", GROUPS).ratios]
    assert found == [("fp32", 1.1, ()), ("tf32", 2.0, ("New ran tf32, Old fp32",))]


def test_mixed_precision_is_divided_by_mixed_precision() -> None:
    records = [*old(), make("resnet", 450, "New", precision="bf16")]
    ratio = only(compare(records, "Old:fp32", {"g": ("resnet",)}))
    assert (ratio.numerator.precision, ratio.numerator.average, ratio.value) == ("mixed", 4.5, 1.5)
    assert ratio.notes == ("New ran bf16, Old fp16",)


@pytest.mark.parametrize(
    ("text", "precision", "noted"),
    [
        ("A:B:tf32", "tf32", False),
        ("A:B:fp32", "tf32", True),
        ("A:B:32-bit", "tf32", False),
        ("A:B:mixed", "bf16", False),
        ("A:B:fp16", "bf16", True),
    ],
)
def test_references(text: str, precision: str, noted: bool) -> None:
    selection = select([make("resnet", 1, "A:B", precision=p) for p in ("tf32", "bf16")])
    reference = parse_reference(text, selection)
    assert (reference.system, reference.precision) == ("A:B", precision)
    assert bool(reference.notes) == noted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Old", "names no reference"),
        (":fp32", "names no reference"),
        ("Old:", "names no reference"),
        ("Odl:fp32", "unknown system 'Odl'"),
        ("Old:fp23", "unknown precision 'fp23'; did you mean fp32"),
        ("New:fp16", "has no fp16 Records on one accelerator; it has: fp32"),
        ("Many:fp32", "none at another precision"),
        ("Both:32-bit", "has both fp32 and tf32 Records"),
    ],
)
def test_wrong_references_are_one_sentence(text: str, message: str) -> None:
    records = [*old(), make("resnet", 1, "New"), make("resnet", 1, "Many", accelerators=2)]
    records += [make("resnet", 1, "Both", precision=precision) for precision in ("fp32", "tf32")]
    with pytest.raises(UsageError, match=message):
        normalise(records, text, GROUPS)


def test_the_exact_precision_is_the_reference_where_a_system_has_both() -> None:
    records = [make("resnet", 1, "Both", precision="fp32"), make("resnet", 2, "Both", precision="tf32")]
    for precision in ("fp32", "tf32"):
        assert parse_reference(f"Both:{precision}", select(records)).precision == precision


def test_intervals_by_hand() -> None:
    records = [
        make("resnet", 100, half=0.03),
        make("bert", 10, half=0.04),
        make("resnet", 150, "New", half=0.02),
        make("bert", 30, "New", half=0.01),
    ]
    # Averages: 1.5 / 3 of the sum 4.5 for the new system, which is divided by exactly 1.
    half = math.sqrt((1 / 3) ** 2 * (0.02**2 + 0.03**2) + (2 / 3) ** 2 * (0.01**2 + 0.04**2))
    ratio = only(compare(records, "Old:fp32", GROUPS))
    assert ratio.value == 2.25
    assert ratio.ci95 == pytest.approx((2.25 * math.exp(-half), 2.25 * math.exp(half)))
    assert ratio.numerator.ci95 == pytest.approx(ratio.ci95)
    assert ratio.denominator is not None
    assert ratio.denominator.ci95 == (1, 1)


def test_the_references_own_scatter_cancels_where_it_divides_both() -> None:
    records = [
        make("resnet", 100, half=0.5),
        make("resnet", 200, accelerators=2, half=0.03),
        make("resnet", 300, "New", accelerators=2, half=0.04),
    ]
    ratio = only(compare(records, "Old:fp32", {"g": ("resnet",)}))
    assert ratio.ci95 == pytest.approx((1.5 * math.exp(-0.05), 1.5 * math.exp(0.05)))


def test_one_record_without_an_interval_leaves_none() -> None:
    records = [*old(), make("resnet", 150, "New", half=0.01), make("bert", 30, "New", half=0.01)]
    assert only(compare(records, "Old:fp32", GROUPS)).ci95 is None


def test_an_interval_wider_than_its_value_leaves_none() -> None:
    records = [make("resnet", 1, half=0.1), make("resnet", 1, "New", half=1e6)]
    assert only(compare(records, "Old:fp32", {"g": ("resnet",)})).ci95 is None


def test_by_default_the_common_networks_are_compared_together_and_alone() -> None:
    records = [*old(), make("resnet", 150, "New"), make("bert", 30, "New"), make("gnmt", 1, "New")]
    comparison = compare(records)
    assert [(r.numerator.group, r.value) for r in comparison.ratios] == [
        ("all 2 networks", 2.25),
        ("resnet", 1.5),
        ("bert", 3),
    ]
    assert str(comparison.reference) == "Old:fp32"
    assert comparison.notes[0].startswith("the reference is Old:fp32, the first system read")


def test_by_default_tiny_and_full_are_groups_apart() -> None:
    records = [make("resnet", 10), make("bert", 10, size="tiny"), make("resnet", 10, size="tiny")]
    records += [record.replace(system=make("x", 1, "New").system, id=f"n{record.id}") for record in records]
    assert [ratio.numerator.group for ratio in compare(records).ratios] == [
        "resnet",
        "all 2 networks (tiny)",
        "resnet (tiny)",
        "bert (tiny)",
    ]


def test_a_system_alone_is_compared_with_itself() -> None:
    found = {(r.numerator.precision, r.value, r.numerator.average) for r in compare(old()).ratios}
    assert found >= {("32-bit", 1.0, 1.0), ("mixed", 1.0, 3.0)}


def test_systems_without_a_common_network_are_said() -> None:
    comparison = compare([*old(), make("gnmt", 1, "New")])
    assert not comparison.ratios
    assert comparison.notes[-1] == "New has no network of the same size in common with Old:fp32"


def test_partitions_are_systems_of_their_own() -> None:
    records = [*old(), make("resnet", 20, partition="1g.10gb")]
    assert [r.system for r in normalise(records, "Old:fp32", {"g": ("resnet",)}).rows][-1] == "Old (1g.10gb)"


def test_nothing_to_normalise_to_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="no usable training Record on one accelerator"):
        compare([make("resnet", 1, accelerators=2)])


def test_ratios_of_normalised_rows_leave_the_reference_out() -> None:
    normalised = normalise([*old(), make("resnet", 150, "New")], "Old:fp32", {"g": ("resnet",)})
    assert [(r.numerator.system, r.value) for r in ratios(normalised)] == [("New", 1.5)]
    assert {r.numerator.system for r in ratios(normalised, ["Old"])} == {"Old"}
