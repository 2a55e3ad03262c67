"""What a power meter's log says of a measurement, in both forms, and what it cannot say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from accelmark.errors import UnreadableInputError
from accelmark.importers.power import mean_w, with_power
from accelmark.record import Metrics, Samples, Span, Throughput, Window
from tests.records import record

BEGIN = datetime(2026, 12, 7, 9, 0, 0, tzinfo=UTC)
SPAN = Span(begin=BEGIN, end=BEGIN + timedelta(seconds=10))


def samples(seconds: range) -> list[tuple[datetime, float]]:
    """100 W outside of the span, and in it 200 and 300 W by turns."""
    inside = range(11)
    return [
        (BEGIN + timedelta(seconds=s), (200.0 if s % 2 else 300.0) if s in inside else 100.0) for s in seconds
    ]


def as_csv(path: Path, rows: list[tuple[datetime, float]]) -> Path:
    path.write_text("Timestamp, Power_W\n" + "".join(f"{t.isoformat()},{w}\n" for t, w in rows))
    return path


def as_spl(path: Path, rows: list[tuple[datetime, float]]) -> Path:
    lines = [
        f"Time,{t.astimezone():%m-%d-%Y %H:%M:%S}.500,Watts,{w:.6f},Volts,200.0,Amps,1.0,PF,0.9,Mark,x\n"
        for t, w in rows
    ]
    path.write_text("".join(lines))
    return path


def test_only_samples_of_the_span_count(tmp_path: Path) -> None:
    rows = samples(range(-30, 40))
    watts, why = mean_w(as_csv(tmp_path / "a.csv", rows), SPAN)
    assert why is None
    assert watts == pytest.approx((6 * 300 + 5 * 200) / 11)
    watts, why = mean_w(as_spl(tmp_path / "spl.txt", rows), SPAN)
    assert why is None
    assert watts == pytest.approx(250)  # ten samples, each half a second later
    in_seconds = tmp_path / "b.csv"
    in_seconds.write_text("time,watts\n" + "".join(f"{t.timestamp()},{w}\n" for t, w in rows))
    assert mean_w(in_seconds, SPAN)[0] == pytest.approx((6 * 300 + 5 * 200) / 11)


def test_energy_is_of_the_windows_and_efficiency_is_throughput_by_power(tmp_path: Path) -> None:
    log = as_csv(tmp_path / "a.csv", [(t, 250.0) for t, _ in samples(range(-5, 45))])
    later = Span(begin=BEGIN + timedelta(seconds=20), end=BEGIN + timedelta(seconds=40))
    windows = [Window(start_s=0, seconds=8, units=800, steps=8, process=i) for i in range(2)]
    measured = record(
        metrics=Metrics(
            throughput=Throughput(value=100, unit="images/s"), not_measured={"energy_j": "no sensor"}
        ),
        samples=Samples(windows=windows, spans=[SPAN, later]),
    )
    metrics = with_power(measured, log).metrics
    assert metrics.power_w == pytest.approx(250)
    assert metrics.energy_j == pytest.approx(250 * 16)
    assert metrics.efficiency is not None
    assert (metrics.efficiency.value, metrics.efficiency.unit) == (pytest.approx(0.4), "images/s/W")
    assert metrics.power_basis == "system"
    assert metrics.not_measured == {}


@pytest.mark.parametrize(
    ("seconds", "why"), [(range(-30, 3), "no sample for"), (range(100, 120), "no sample of the power log")]
)
@pytest.mark.parametrize("write", [as_csv, as_spl])
def test_a_log_that_does_not_cover_the_span(tmp_path: Path, seconds: range, why: str, write) -> None:  # type: ignore[no-untyped-def]
    log = write(tmp_path / "log", samples(seconds))
    watts, said = mean_w(log, SPAN)
    assert watts is None
    assert said is not None
    assert why in said
    measured = record(
        metrics=Metrics(throughput=Throughput(value=1, unit="images/s")), samples=Samples(spans=[SPAN])
    )
    metrics = with_power(measured, log).metrics
    assert metrics.energy_j is None
    assert metrics.not_measured["energy_j"].startswith("log: ")


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "time,watts\nsoon,200\n", "time,watts\n2026-12-07T09:00:01\n"]
)
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(text)
    with pytest.raises(UnreadableInputError, match=r"log\.csv"):
        mean_w(log, SPAN)
