"""No board does more than its data sheet says, and energy is power times time."""

from __future__ import annotations

from typing import Any

import pytest

from accelmark.audit import audit
from accelmark.names import facts
from accelmark.record import (
    CeilingShare,
    Metrics,
    Quantity,
    Record,
    Sample,
    Samples,
    Throughput,
    Window,
)
from tests.audit.rows import row
from tests.records import record

#: Images/s of ResNet-50 v1.5 (8.2 GFLOP) at the V100's fp16 peak of 125 TFLOP/s.
PEAK = 125e12 / 8.2e9


def severities(record: Record) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in audit([record])]


@pytest.mark.parametrize(
    ("share", "severity"), [(0.89, None), (0.91, "warning"), (1.04, "warning"), (1.06, "error")]
)
def test_above_the_peak(share: float, severity: str | None) -> None:
    found = severities(row("a", PEAK * share, precision="fp16"))
    assert found == ([("above-peak", severity)] if severity else [])


@pytest.mark.parametrize(
    "changes",
    [
        {"board": "Some Board 9000"},
        {"network": "some-network"},
        {"network": "mask-rcnn-r50-fpn"},
        {"network": "bert-large", "unit": "sequences/s"},
        {"network": "bert-large", "unit": "sequences/s", "sequence_length": 77},
        {"precision": "fp4"},
        {"precision": None},
        {"unit": "tokens/s"},
        {"size": "tiny"},
        {
            "network": "bert-large",
            "unit": "samples/s",
            "sequence_length": 384,
            "parameters": {"rules": "mlperf-inference-1.0"},
        },
    ],
)
def test_what_is_unknown_is_no_fault(changes: dict[str, Any]) -> None:
    assert severities(row("a", PEAK * 1e6, **{"precision": "fp16", **changes})) == []


def test_more_accelerators_have_more_and_slices_less() -> None:
    assert severities(row("a", PEAK * 7, precision="fp16", accelerators=8)) == []
    slice_of = {"board": "A100-SXM4-80GB", "precision": "int8", "partition": "1g.10gb"}
    rate = 624e12 / 8.2e9 / 7
    assert severities(row("a", rate * 0.89, **slice_of)) == []
    # Above the dense peak of the slice, below its sparse one.
    assert severities(row("a", rate * 1.5, **slice_of)) == [("above-peak", "warning")]
    assert severities(row("a", rate * 2.5, **slice_of)) == [("above-peak", "error")]
    assert severities(row("a", rate * 6, parameters={"instances": 7}, **slice_of)) == []
    assert severities(row("a", rate * 6, **{**slice_of, "partition": "a corner of it"})) == []


def test_training_takes_three_times_as_much() -> None:
    assert severities(row("a", PEAK * 0.36, precision="fp16", scenario="training")) == [
        ("above-peak", "error")
    ]
    assert severities(row("a", PEAK * 0.29, precision="fp16", scenario="time-to-quality")) == []


def test_a_sparse_network_is_held_against_the_sparse_peak() -> None:
    rate = 1248e12 / 78.9e9
    fields = {"board": "A100-SXM4-40GB", "precision": "int8", "sequence_length": 128, "unit": "sequences/s"}
    assert severities(row("a", rate * 0.85, network="bert-large-sparse", **fields)) == []
    assert severities(row("a", rate * 0.85, network="bert-large", **fields)) == [("above-peak", "warning")]
    assert severities(row("a", rate * 1.06, network="bert-large-sparse", **fields)) == [
        ("above-peak", "error")
    ]


def test_fast_convolutions_at_fp32_are_a_note() -> None:
    rate = 15.7e12 / 8.2e9
    assert severities(row("a", rate * 2.2, precision="fp32")) == [("above-peak", "note")]
    assert severities(row("a", rate * 2.3, precision="fp32")) == [("above-peak", "error")]
    bert = {"network": "bert-base", "sequence_length": 128, "unit": "sequences/s", "precision": "fp32"}
    assert severities(row("a", 15.7e12 / 22.3e9 * 1.06, **bert)) == [("above-peak", "error")]


def test_arithmetic_that_was_counted_comes_before_the_table() -> None:
    counted = {"metrics": {"flops_per_sample": 125e9}, "network": "some-network", "precision": "fp16"}
    assert severities(row("a", 1060.0, scenario="training", **counted)) == [("above-peak", "error")]
    assert severities(row("a", 890.0, scenario="training", **counted)) == []


def test_a_share_of_the_measured_ceiling() -> None:
    def share(value: float) -> Record:
        ceiling = CeilingShare(share=value, flops_per_s=1, ceiling_flops_per_s=1, reference="c")
        return record("a", metrics=Metrics(ceiling=ceiling))

    assert severities(share(1.019)) == []
    (finding,) = audit([share(1.021)])
    assert (finding.rule, finding.severity, finding.against) == ("above-ceiling", "error", ("c",))


def test_every_board_of_the_table_is_dated_and_sparse_peaks_are_twice_the_dense() -> None:
    for name in ("A100-SXM4-40GB", "A30", "A10", "T4", "V100-SXM2-16GB", "H200", "RTX 3090"):
        board = facts.board(name)
        assert board is not None
        assert board.source
        assert board.since.year >= 2018
        assert all(rate == pytest.approx(2 * board.dense[p], rel=0.01) for p, rate in board.sparse.items())
    assert facts.board("Some Board 9000") is None


@pytest.mark.parametrize(
    ("board", "partition", "share"),
    [
        ("A100-SXM4-80GB", None, 1),
        ("A100-SXM4-80GB", "1/7", 1 / 7),
        ("A100-SXM4-80GB", "3g.40gb", 3 / 7),
        ("A30", "1g.6gb", 1 / 4),
        ("A30", "7g.99gb", 1),
        ("T4", "1g.6gb", 1),
        ("A30", "half", 1),
    ],
)
def test_shares_of_a_board(board: str, partition: str | None, share: float) -> None:
    known = facts.board(board)
    assert known is not None
    assert known.share(partition) == pytest.approx(share)


def measured(
    joules: float, sensor: float | None = None, watts: float | None = 200.0, boards: int = 1
) -> Record:
    """Two processes of 20 s each at 200 W by the counter, the board's sensor read once a second.

    Windows count their time from after the first step, which took ten seconds.
    """
    windows = [
        Window(process=process, start_s=2 * i, seconds=2, units=200, steps=10)
        for process in range(2)
        for i in range(10)
    ]
    telemetry = [
        Sample(time_s=float(second), power_w=50.0 if second < 10 else sensor)
        for _ in range(2)
        for second in range(32)
    ]
    base = record("a")
    return base.replace(
        job=base.job.model_copy(update={"accelerators": boards}),
        metrics=Metrics(energy_j=joules, power_w=watts, energy_source="NVML, board"),
        samples=Samples(windows=windows, telemetry=telemetry if sensor else []),
    )


@pytest.mark.parametrize(
    ("joules", "sensor", "found"),
    [
        (8000.0, 200.0, []),
        (8000.0, 175.0, []),
        (8000.0, 172.0, ["warning"]),
        (8000.0, 232.0, ["warning"]),
        (8000.0, 131.0, ["error"]),
        (8_000_000.0, 200.0, ["error", "error"]),
        (8000.0, None, []),
        (9300.0, None, ["warning"]),
        (9100.0, None, []),
    ],
)
def test_the_energy_counter_against_integrated_power(
    joules: float, sensor: float | None, found: list[str]
) -> None:
    findings = audit([measured(joules, sensor)])
    assert [f.severity for f in findings] == found
    assert {f.rule for f in findings} <= {"energy-against-power"}


def test_one_sensor_stands_for_each_of_several_boards() -> None:
    assert audit([measured(16000.0, 200.0, watts=400.0, boards=2)]) == []
    assert [f.severity for f in audit([measured(8000.0, 200.0, boards=2)])] == ["error"]


def test_few_or_unassignable_readings_say_nothing() -> None:
    good = measured(8000.0, 100.0)
    assert audit([good]) != []
    few = good.samples.model_copy(update={"telemetry": good.samples.telemetry[::16]})
    assert audit([good.replace(samples=few)]) == []
    one = good.samples.model_copy(update={"telemetry": good.samples.telemetry[:32]})
    assert audit([good.replace(samples=one)]) == []


def test_efficiency_times_power_is_throughput() -> None:
    def efficient(value: float, unit: str = "images/s/W") -> Record:
        efficiency = Quantity(value=value, unit=unit)
        throughput = Throughput(value=1000, unit="images/s")
        return record("a", metrics=Metrics(throughput=throughput, efficiency=efficiency, power_w=100))

    assert severities(efficient(10.0)) == severities(efficient(10.4)) == severities(efficient(9.6)) == []
    assert (
        severities(efficient(10.7)) == severities(efficient(9.4)) == [("efficiency-against-power", "error")]
    )
    assert severities(efficient(3.0, "J/image")) == []


def test_no_board_draws_more_than_its_limit() -> None:
    def at(efficiency: float, printed: str | None = None, basis: str = "board") -> Record:
        metrics = {"efficiency": Quantity(value=efficiency, unit="images/s/W"), "power_basis": basis}
        return row("a", 1000.0, board="T4", metrics=metrics, printed=printed)

    assert severities(at(13.7)) == []  # 73.0 of 70 W
    assert severities(at(13.6)) == [("above-power-limit", "error")]  # 73.5
    assert severities(at(13.6, "1,000 | 13.6 images/sec/watt")) == []  # may be 13.65
    assert severities(at(1.0, basis="system")) == []
