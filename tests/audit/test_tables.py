"""What several rows say together: copies, derived figures, labels that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from accelmark.audit import audit
from accelmark.names import facts
from accelmark.record import Quality, Record
from tests.audit.rows import row


def found(*records: Record) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    return [(f.rule, f.severity, f.records, f.against) for f in audit(records)]


def asr(
    identity: str, latency: float, *, network: str = "jasper-10x5dr", mode: str = "a", **fields: Any
) -> Record:
    parameters = {"mode": mode, "streams": 512}
    scenario = {"scenario": "speech-recognition", "conditions": {"load": "real-time paced"}}
    return row(
        identity, 500.0, "RTFX", latency=latency, network=network, parameters=parameters, **scenario, **fields
    )


def test_a_row_that_repeats_another_under_other_conditions() -> None:
    assert found(asr("r/2", 969.7), asr("r/10", 969.7, mode="b")) == [
        ("repeated-figures", "warning", ("r/10",), ("r/2",))
    ]


@pytest.mark.parametrize(
    "other",
    [
        asr("r/10", 969.7),  # the same conditions: measured twice
        asr("r/10", 969.8, mode="b"),
        asr("r/10", 969.7, mode="b", board="T4"),
        asr("r/10", 969.7, mode="b", network="rnnt"),
    ],
)
def test_what_is_no_repetition(other: Record) -> None:
    assert found(asr("r/2", 969.7), other) == []


def test_few_digits_and_single_figures_repeat_by_chance() -> None:
    assert found(asr("a", 970.0), asr("b", 970.0, mode="b")) == []
    one = row("a", 105677.0, scenario="offline")
    assert found(one, row("b", 105677.0, scenario="server")) == []


def test_a_run_entered_for_two_accuracy_targets_is_a_note() -> None:
    fields = {"latency": 352.391, "scenario": "offline"}
    rows = [row(str(t), 772.378, parameters={"accuracy_target": t}, **fields) for t in (99, 99.9)]
    assert found(*rows) == [("repeated-figures", "note", ("99.9",), ("99",))]


LATENCIES = (0.71, 0.9, 2.34, 6.66, 28.57)


def series(
    name: str, latencies: tuple[float, ...], instances: int, factor: float = 1.0, **job: Any
) -> list[Record]:
    batches = (1, 2, 8, 27, 128)
    return [
        row(
            f"{name}/{i}",
            instances * batch / latency * 1000 * factor,
            latency=latency,
            batch_size=batch,
            parameters={"instances": instances},
            **job,
        )
        for i, (batch, latency) in enumerate(zip(batches, latencies, strict=False))
    ]


def test_a_column_copied_from_another_table() -> None:
    one, seven = series("1", LATENCIES, 1), series("7", LATENCIES, 7, 0.98)
    (finding,) = audit([*one, *seven])
    assert (finding.rule, finding.severity) == ("copied-column", "warning")
    assert finding.records == tuple(r.id for r in seven)
    assert finding.against == tuple(r.id for r in one)


def test_columns_that_are_alike_and_not_copied() -> None:
    one = series("1", LATENCIES, 1)
    assert found(*one, *series("7", (0.71, 0.9, 2.34, 6.67, 28.58), 7)) == []  # three rows agree
    assert found(*one, *series("7", LATENCIES, 7, network="resnet50-v1")) == []
    short = (1.0, 2.0, 3.0, 4.0, 5.0)
    assert found(*series("1", short, 1), *series("7", short, 7)) == []


def scheduled(name: str, power_run: bool) -> list[Record]:
    figures = {"rnnt": 43389.0, "dlrm": 942395.0, "bert-large": 10203.0, "unet-3d": 106988.0}
    return [
        row(
            f"{name}/{n}",
            value,
            "queries/s",
            network=n,
            scenario="server",
            conditions={"power_run": power_run},
        )
        for n, value in figures.items()
    ]


def test_equal_target_rates_give_equal_figures() -> None:
    assert found(*scheduled("plain", power_run=False), *scheduled("power", power_run=True)) == []


def training(identity: str, throughput: float, accelerators: int = 1, **fields: Any) -> Record:
    fields = {"scenario": "training", "batch_size": 408, "network": "some-network", **fields}
    return row(identity, throughput, accelerators=accelerators, **fields)


def test_an_exact_multiple() -> None:
    eight = training("e", 22008.0, 8, scenario="time-to-quality", board="A100-SXM4-40GB")
    assert found(training("o", 2751.0, board="A100-SXM4-80GB"), eight) == [
        ("exact-multiple", "warning", ("o",), ("e",))
    ]


@pytest.mark.parametrize(
    ("one", "eight"),
    [
        (training("o", 2751.0), training("e", 22009.0, 8)),
        (training("o", 29.0), training("e", 232.0, 8)),
        (training("o", 2500.0), training("e", 20000.0, 8)),
        (training("o", 1905.0, 4), training("e", 3810.0, 8)),
        (training("o", 2751.0, batch_size=256), training("e", 22008.0, 8)),
        (training("o", 2751.0, precision="tf32"), training("e", 22008.0, 8)),
        (training("o", 2751.0, board="T4"), training("e", 22008.0, 8)),
        (training("o", 2751.0, scenario="server"), training("e", 22008.0, 8, scenario="server")),
        (training("o", 2751.0, 3), training("e", 7336.0, 8)),
    ],
)
def test_what_is_no_exact_multiple(one: Record, eight: Record) -> None:
    assert found(one, eight) == []


def test_an_odd_unit() -> None:
    rows = [training(str(i), 100.0 + i, unit="sequences/s") for i in range(5)]
    odd = training("5", 1051.0, unit="images/s", scenario="time-to-quality")
    assert found(*rows, odd) == [("odd-unit", "warning", ("5",), ("0", "1", "2", "3", "4"))]
    # Another framework may count otherwise, another scenario too, and one of four is no exception.
    assert found(*rows, training("5", 1051.0, framework="tensorflow")) == []
    assert found(*rows, training("5", 1051.0, scenario="offline")) == []
    assert found(*rows[:3], odd) == []


def test_a_precision_that_changes_with_the_batch() -> None:
    def at(batch: int, precision: str, **fields: Any) -> Record:
        fields = {"network": "some-network", "section": "a table", **fields}
        return row(f"{batch}-{precision}", 1000.0 + batch, batch_size=batch, precision=precision, **fields)

    assert found(at(8, "fp16"), at(128, "int8")) == [
        ("changing-precision", "warning", ("8-fp16", "128-int8"), ())
    ]
    assert found(at(8, "fp16"), at(128, "fp16")) == []
    assert found(at(8, "fp16"), at(128, "fp16"), at(128, "int8")) == []
    assert found(at(8, "fp16", section=None), at(128, "int8", section=None)) == []
    assert found(at(8, "fp16"), at(128, "int8", section="another")) == []


def test_a_larger_network_that_is_faster() -> None:
    small, large = asr("q", 157.62, network="quartznet-15x5"), asr("j", 96.201)
    assert found(small, large) == [("larger-faster", "warning", ("q",), ("j",))]


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (asr("q", 109.0, network="quartznet-15x5"), asr("j", 100.0)),
        (asr("q", 100.0, network="quartznet-15x5"), asr("j", 157.62)),
        (asr("q", 157.62, network="quartznet-15x5"), asr("j", 96.201, mode="b")),
        (asr("q", 157.62, network="quartznet-15x5"), asr("j", 96.201, board="T4")),
        (asr("q", 157.62, network="some-network"), asr("j", 96.201)),
        # Of different families: more parameters do not mean more work.
        (asr("q", 157.62, network="efficientnet-b4"), asr("j", 96.201)),
    ],
)
def test_what_is_no_inversion(small: Record, large: Record) -> None:
    assert found(small, large) == []


def test_throughputs_of_sizes_are_compared_too() -> None:
    def at(network: str, rate: float, **fields: Any) -> Record:
        return row(network, rate, "sequences/s", network=network, scenario="training", batch_size=8, **fields)

    assert found(at("bert-base", 100.0), at("bert-large", 111.0))[0][0] == "larger-faster"
    assert found(at("bert-base", 100.0), at("bert-large", 109.0)) == []
    assert found(at("bert-base", 100.0, size="tiny"), at("bert-large", 200.0, size="tiny")) == []


def quality(target: float, metric: str = "F1, %", network: str = "bert-large", **fields: Any) -> Record:
    rules = {"rules": "mlperf-inference-1.0", **fields}
    metrics = {"quality": [Quality(metric=metric, target=target)]}
    return row(
        "a", 1.0, network=network, scenario="offline", parameters=rules, metrics=metrics, printed=f"{target}%"
    )


@pytest.mark.parametrize(
    ("target", "metric", "network"),
    [
        (90.874, "F1, %", "bert-large"),
        (90.87, "F1, %", "bert-large"),
        (89.965, "F1, %", "bert-large"),
        (89.96526, "F1, %", "bert-large"),
        (0.90783, "F1", "bert-large"),
        (7.45, "WER, %", "rnnt"),
        (8.378, "WER, %", "rnnt"),
        (90.07, "another metric", "bert-large"),
        (90.07, "F1, %", "some-network"),
    ],
)
def test_targets_that_are_the_rule_books_or_unknown(target: float, metric: str, network: str) -> None:
    assert found(quality(target, metric, network)) == []


def test_a_target_that_is_none_of_the_rule_books() -> None:
    assert found(quality(90.07)) == [("unknown-target", "warning", ("a",), ())]
    assert found(quality(0.9007, "F1")) == [("unknown-target", "warning", ("a",), ())]
    assert found(quality(90.07, rules="mlperf-inference-9.9")) == []
    assert found(quality(90.07, rules=7)) == []


def test_bounds_of_errors_are_shares_of_what_is_right() -> None:
    known = facts.target("mlperf-inference-1.0", "rnnt", "WER, %")
    assert known is not None
    assert known.bounds == (pytest.approx(8.3777, abs=1e-4),)
