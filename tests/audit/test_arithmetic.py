"""Throughput, latency and what is in flight agree, within what rounding and pauses allow."""

from __future__ import annotations

from typing import Any

import pytest

from accelmark.audit import audit
from accelmark.record import Latency, Metrics, Record
from tests.audit.rows import row

PACED = {"load": "real-time paced"}


def rules(*records: Record) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(finding.rule, finding.severity, finding.records) for finding in audit(records)]


@pytest.mark.parametrize(
    ("throughput", "severity"),
    [
        (800.0 * 1.021, "error"),
        (800.0 * 1.019, None),
        (800.0, None),
        (800.0 * 0.901, None),
        (800.0 * 0.899, "warning"),
    ],
)
def test_batch_over_latency(throughput: float, severity: str | None) -> None:
    found = rules(row("a", throughput, latency=10.0, batch_size=8))
    assert found == ([("batch-over-latency", severity, ("a",))] if severity else [])


@pytest.mark.parametrize("fields", [{"instances": 7}, {"streams": 7}])
def test_instances_and_streams_work_side_by_side(fields: dict[str, int]) -> None:
    assert rules(row("a", 5600.0, latency=10.0, batch_size=8, parameters=fields)) == []
    assert rules(row("a", 800.0, latency=10.0, batch_size=8, parameters=fields))[0][1] == "warning"


def test_accelerators_work_side_by_side() -> None:
    assert rules(row("a", 1600.0, latency=10.0, batch_size=8, accelerators=2)) == []


def test_rounding_of_printed_figures_is_allowed_for() -> None:
    # 2 / 1 ms is 2000, and 1 ms may be anything from 0.5 to 1.5.
    assert rules(row("a", 1400.0, latency=1.0, batch_size=2, printed="2 | 1,400 images/sec | 1")) == []
    assert rules(row("a", 1400.0, latency=1.0, batch_size=2, printed="2 | 1,400 images/sec | 1.00")) != []
    assert rules(row("a", 1400.0, latency=1.0, batch_size=2)) != []


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": None},
        {"latency": None},
        {"unit": "tokens/s"},
        {"scenario": "offline"},
        {"metrics": {"latency_ms": Latency(p99=10.0)}, "latency": None},
    ],
)
def test_batch_over_latency_says_nothing_without_what_it_needs(changes: dict[str, Any]) -> None:
    fields = {"batch_size": 8, "latency": 10.0, **changes}
    metrics = fields.pop("metrics", {})
    record = row("a", 4000.0, **fields)
    if metrics:
        record = record.replace(metrics=Metrics(throughput=record.metrics.throughput, **metrics))
    assert rules(record) == []


@pytest.mark.parametrize(
    ("scenario", "parameters", "expected"),
    [
        ("serving", {"concurrent_requests": 16}, 1600.0),
        ("serving", {"concurrent_requests": 16, "client_batch_size": 4}, 6400.0),
        ("language-service", {"streams": 16}, 1600.0),
        ("single-stream", {}, 100.0),
    ],
)
def test_littles_law(scenario: str, parameters: dict[str, int], expected: float) -> None:
    def found(throughput: float) -> list[str]:
        record = row("a", throughput, "sequences/s", latency=10.0, scenario=scenario, parameters=parameters)
        return [severity for rule, severity, _ in rules(record) if rule == "littles-law"]

    assert found(expected) == found(expected * 1.019) == found(expected * 0.901) == []
    assert found(expected * 1.021) == ["error"]
    assert found(expected * 0.899) == ["warning"]


def test_requests_are_counted_once_whatever_they_hold() -> None:
    parameters = {"concurrent_requests": 16, "client_batch_size": 4}
    assert (
        rules(row("a", 1600.0, "requests/s", latency=10.0, scenario="serving", parameters=parameters)) == []
    )


def test_littles_law_says_nothing_of_schedules_and_unknown_clients() -> None:
    assert rules(row("a", 9000.0, latency=10.0, scenario="serving")) == []
    assert (
        rules(row("a", 9000.0, latency=10.0, scenario="server", parameters={"concurrent_requests": 1})) == []
    )
    paced = row(
        "a", 9.0, latency=10.0, scenario="serving", parameters={"concurrent_requests": 9}, conditions=PACED
    )
    assert rules(paced) == []


@pytest.mark.parametrize(
    ("rtfx", "latency", "severity"),
    [
        (102.0, 250.0, "error"),
        (100.9, 250.0, None),
        (100.0, 250.0, None),
        (91.0, 250.0, None),
        (89.0, 250.0, "error"),
        (89.0, 799.0, "error"),
        (89.0, 801.0, "warning"),
        (89.0, None, "warning"),
    ],
)
def test_paced_streams(rtfx: float, latency: float | None, severity: str | None) -> None:
    parameters = {"streams": 100, "chunk_ms": 800}
    record = row(
        "a",
        rtfx,
        "RTFX",
        latency=latency,
        scenario="speech-recognition",
        parameters=parameters,
        conditions=PACED,
    )
    assert rules(record) == ([("paced-streams", severity, ("a",))] if severity else [])


def test_streams_that_are_not_paced_have_any_rate() -> None:
    record = row("a", 6400.0, "RTFX", scenario="speech-recognition", parameters={"streams": 1})
    assert rules(record) == []
