"""Pairs of Records: what is paired, the ratio, its interval, the mean, the guard."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark import conclude, published
from accelmark.compare.conditions import compare_conditions
from accelmark.compare.pairs import Pair, Pairing, guard, pair_up
from accelmark.compare.prices import Prices, read_prices
from accelmark.errors import UnreadableInputError
from accelmark.job import Job
from accelmark.record import (
    Latency,
    Metrics,
    Origin,
    Quantity,
    Record,
    Samples,
    Source,
    Status,
    Throughput,
    TrainingRun,
    Window,
)
from accelmark.store import Store, read
from accelmark.system import Accelerator, System
from tests.records import measured, record


def plain(identity: str, value: float, **changes: Any) -> Record:
    """A figure without spread, as a page prints it."""
    return record(
        identity,
        source=Source.PUBLISHED,
        metrics=Metrics(throughput=Throughput(value=value, unit="images/s")),
        samples=Samples(),
        **changes,
    )


def only(pairing: Pairing) -> Pair:
    assert len(pairing.pairs) == 1
    return pairing.pairs[0]


def test_a_ratio_is_ours_over_theirs() -> None:
    pair = only(pair_up([plain("ours", 200)], [plain("theirs", 100)]))
    assert pair.comparable
    assert [(ratio.metric, ratio.value, ratio.ci95) for ratio in pair.ratios] == [("throughput", 2.0, None)]


def test_fewer_minutes_are_faster() -> None:
    def trained(identity: str, minutes: float) -> Record:
        job = Job(network="dlrm", scenario="time-to-quality", parameters={"rules": "mlperf-training-0.7"})
        return record(identity, job=job, metrics=Metrics(time_to_train_min=minutes), samples=Samples())

    ratio = only(pair_up([trained("ours", 5)], [trained("theirs", 20)])).ratios[0]
    assert (ratio.metric, ratio.value) == ("time_to_train_min", 4.0)


def test_what_differs_is_named_and_has_no_ratio() -> None:
    ours = plain("ours", 200)
    theirs = plain("theirs", 100, job=Job(network="resnet50-v1.5", batch_size=408))
    pair = only(pair_up([ours], [theirs]))
    assert not pair.comparable
    assert [str(difference) for difference in pair.conditions.blocking] == ["batch size 8 ≠ 408"]
    assert pair_up([ours], [theirs]).summary.pairs == 0
    lifted = only(pair_up([ours], [theirs], allow=["batch_size"]))
    assert lifted.ratios[0].value == 2.0
    assert [str(difference) for difference in lifted.conditions.lifted] == ["batch size 8 ≠ 408"]


def test_tiny_is_never_compared_with_full() -> None:
    tiny = plain("ours", 200, job=Job(network="resnet50-v1.5", size="tiny", batch_size=8))
    assert not only(pair_up([tiny], [plain("theirs", 100)])).comparable


def test_only_the_nearest_are_shown_where_nothing_is_comparable() -> None:
    others = [
        plain(f"b{count}", 100, job=Job(network="resnet50-v1.5", batch_size=64, accelerators=count))
        for count in range(1, 9)
    ]
    pairing = pair_up([plain("ours", 200)], others)
    assert [pair.other.id for pair in pairing.pairs] == ["b1", "b2", "b3"]


def test_board_power_is_not_system_power() -> None:
    def efficient(identity: str, basis: Any, job: Job | None = None) -> Record:
        return plain(
            identity,
            100,
            **({"job": job} if job else {}),
        ).replace(
            metrics=Metrics(
                throughput=Throughput(value=100, unit="images/s"),
                efficiency=Quantity(value=4 if basis == "board" else 2, unit="images/s/W"),
                power_basis=basis,
            )
        )

    same = only(pair_up([efficient("a", "board")], [efficient("b", "board")]))
    assert [(ratio.metric, ratio.value) for ratio in same.ratios] == [
        ("throughput", 1.0),
        ("efficiency", 1.0),
    ]
    pair = only(pair_up([efficient("a", "board")], [efficient("b", "system")]))
    assert [ratio.metric for ratio in pair.ratios] == ["throughput"]
    assert [(metric, str(difference)) for metric, difference in pair.left_out] == [
        ("efficiency", "board power ≠ system power")
    ]
    allowed = only(pair_up([efficient("a", "board")], [efficient("b", "system")], allow=["power_basis"]))
    assert [(ratio.metric, ratio.value) for ratio in allowed.ratios][1] == ("efficiency", 2.0)


def test_unusable_records_and_those_alone_are_said() -> None:
    alone = plain("alone", 1, job=Job(network="dlrm"))
    crashed = record("crashed", status=Status.CRASHED)
    pairing = pair_up([alone, crashed], [plain("theirs", 100)])
    assert not pairing.pairs
    assert [r.id for r in pairing.alone] == ["alone"]
    assert [r.id for r in pairing.unusable] == ["crashed"]


def test_the_interval_of_one_side_counts_the_other_as_exact() -> None:
    ours = measured("ours", [198, 200, 202])
    ratio = only(pair_up([ours], [plain("theirs", 100)])).ratios[0]
    assert ours.metrics.throughput is not None
    assert ours.metrics.throughput.ci95 is not None
    low, high = (bound / 100 for bound in ours.metrics.throughput.ci95)
    assert ratio.ci95 == pytest.approx((low, high), rel=0.01)
    assert ratio.spread_of == "first"


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_the_interval_of_a_ratio_holds_the_truth_in_95_of_100(processes: int) -> None:
    """2,000 pairs of measurements with known rates and differences between processes."""
    generator = random.Random(processes)  # noqa: S311
    held = 0
    trials = 2000
    for trial in range(trials):
        sides = []
        for side, truth in (("a", 120.0), ("b", 100.0)):
            found = [
                Window(process=p, start_s=i, seconds=1, units=rate * (1 + generator.gauss(0, 0.01)), steps=1)
                for p in range(processes)
                for rate in [truth * (1 + generator.gauss(0, 0.02))]
                for i in range(5)
            ]
            sides.append(
                record(
                    f"{side}{trial}",
                    metrics=Metrics(throughput=conclude.throughput(found, "images/s")),
                    samples=Samples(windows=found),
                )
            )
        interval = only(pair_up(sides[:1], sides[1:])).ratios[0].ci95
        assert interval is not None
        held += interval[0] <= 1.2 <= interval[1]
    assert 0.93 <= held / trials <= 0.98


def test_time_to_train_is_drawn_from_its_runs() -> None:
    def trained(identity: str, minutes: list[float]) -> Record:
        job = Job(network="dlrm", scenario="time-to-quality", parameters={"rules": "r"})
        score = sum(sorted(minutes)[1:-1]) / (len(minutes) - 2)
        return record(
            identity,
            job=job,
            metrics=Metrics(time_to_train_min=score),
            samples=Samples(runs=[TrainingRun(minutes=each) for each in minutes]),
        )

    ours, theirs = trained("a", [9, 10, 10, 10, 11]), trained("b", [19, 20, 20, 20, 21])
    ratio = only(pair_up([ours], [theirs])).ratios[0]
    assert ratio.value == 2.0
    assert ratio.ci95 is not None
    assert 1.8 < ratio.ci95[0] < 2 < ratio.ci95[1] < 2.2
    assert ratio.spread_of == "both"


def test_the_mean_is_geometric_and_wins_need_the_whole_interval() -> None:
    ours = [
        measured(network, rates, job=Job(network=network))
        for network, rates in (
            ("n1", [200.0, 201, 199]),
            ("n2", [50.0, 50.5, 49.5]),
            ("n3", [90.0, 100, 110]),
        )
    ]
    theirs = [plain(f"{network}-b", 100, job=Job(network=network)) for network in ("n1", "n2", "n3")]
    summary = pair_up(ours, theirs).summary
    assert summary.geometric_mean == pytest.approx(1.0, rel=1e-6)
    assert (summary.wins, summary.losses, summary.ties, summary.undecided) == (1, 1, 1, 0)
    assert summary.ci95 is not None
    assert summary.ci95[0] < 1 < summary.ci95[1]


def test_a_repetition_agrees_only_to_the_printed_digit() -> None:
    def printed(identity: str, value: float, text: str) -> Record:
        return plain(identity, value).replace(origin=Origin(row=f"ResNet-50 | {text} images/sec | 8"))

    page = printed("page", 5294, "5,294")
    for value, agrees in ((5294.4, True), (5293.6, True), (5294.6, False), (10588, False)):
        pair = only(pair_up([plain("log", value).replace(source=Source.IMPORTED)], [page]))
        assert (pair.repeats, pair.agrees) == (True, agrees)
    elsewhere = plain("log", 5294, system=System(name="x", accelerator=Accelerator(name="A100-SXM4-80GB")))
    assert not only(pair_up([elsewhere], [page])).repeats


def test_prices() -> None:
    prices = Prices.model_validate(
        {"currency": "USD", "date": "2026-11-30", "per": "hour", "prices": {"A10": 1.0, "NVIDIA T4": 0.25}}
    )

    def on(identity: str, board: str, value: float, count: int = 1) -> Record:
        return plain(
            identity,
            value,
            job=Job(network="resnet50-v1.5", batch_size=8, accelerators=count),
            system=System(name=board, accelerator=Accelerator(name=board, count=count)),
        )

    pair = only(pair_up([on("a", "A10", 200)], [on("b", "T4", 100)], prices=prices))
    assert {ratio.metric: ratio.value for ratio in pair.ratios} == {
        "throughput": 2.0,
        "throughput_per_price": 0.5,
    }
    unknown = only(pair_up([on("a", "A10", 200)], [on("b", "A30", 100)], prices=prices))
    assert [ratio.metric for ratio in unknown.ratios] == ["throughput"]
    assert prices.of(on("c", "A10", 1, count=8)) == 8.0
    part = on("d", "A10", 1)
    assert prices.of(part.replace(job=part.job.model_copy(update={"partition": "1g.10gb"}))) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("currency: USD", "holds no prices: date"),
        ("[1, 2", "is no YAML"),
        ("{currency: USD, date: 2026-11-30, per: hour, prices: {A10: -1}}", "prices.A10"),
        ("", "holds no prices"),
    ],
)
def test_a_wrong_file_of_prices_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableInputError, match=message):
        read_prices(file)
    with pytest.raises(UnreadableInputError, match="cannot be read"):
        read_prices(tmp_path / "none.yaml")


def test_the_guard_fails_only_if_the_whole_interval_is_below() -> None:
    base = plain("base", 100)

    def outcome(value: Record) -> str:
        return guard(pair_up([value], [base]), 0.95)[0].outcome

    assert outcome(measured("slow", [90.0, 90.5, 89.5])) == "below"
    assert outcome(measured("wide", [80.0, 94, 100])) == "above"
    assert outcome(measured("fast", [100.0, 100.5, 99.5])) == "above"
    assert outcome(measured("noisy", [90.0, 90.5, 89.5], status=Status.NOISY)) == "inconclusive"
    assert outcome(plain("without", 90)) == "inconclusive"


_RECORDS = st.lists(
    st.builds(
        lambda number, network, batch, value, spread, status, minutes: record(
            f"r{number}",
            source=Source.PUBLISHED if spread is None else Source.MEASURED,
            status=status,
            job=Job(network=network, batch_size=batch),
            metrics=Metrics(
                throughput=Throughput(
                    value=value,
                    unit="images/s",
                    ci95=None if spread is None else (value - spread, value + spread),
                ),
                time_to_train_min=minutes,
                latency_ms=Latency(mean=value),
            ),
            samples=Samples(),
        ),
        st.integers(0, 10_000),
        st.sampled_from(["resnet50-v1.5", "dlrm"]),
        st.sampled_from([None, 8, 16]),
        st.floats(1e-3, 1e9),
        st.none() | st.floats(0, 1e3),
        st.sampled_from(list(Status)),
        st.none() | st.floats(0.01, 1e4),
    ),
    max_size=12,
    unique_by=lambda r: r.id,
)


def _told(pairing: Pairing) -> object:
    return (
        [
            (pair.record.id, pair.other.id, pair.ratios, pair.conditions, pair.agrees)
            for pair in pairing.pairs
        ],
        [r.id for r in pairing.alone],
        pairing.summary,
    )


@settings(max_examples=40, deadline=None)
@given(records=_RECORDS, seed=st.integers(0, 100))
def test_any_records_survive_write_read_and_merge_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], seed: int
) -> None:
    others = published.load("lambda-2021-08")
    pairing = pair_up(records, [*records, *others])
    # Equal loads are compared once; what is remembered is what comparing would say.
    for pair in pairing.pairs:
        assert pair.conditions == compare_conditions(pair.record, pair.other)
    expected = _told(pairing)
    shuffled = records.copy()
    random.Random(seed).shuffle(shuffled)  # noqa: S311
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    middle = seed % (len(shuffled) + 1)
    Store(one).write_many(shuffled[:middle])
    Store(two).write_many(shuffled[middle:])
    merged = read([two, one]).records
    assert sorted(r.id for r in merged) == sorted(r.id for r in records)
    assert _told(pair_up(merged, [*others, *merged])) == expected


def test_draws_do_not_depend_on_the_run() -> None:
    ours, theirs = measured("ours", [198, 200, 202]), measured("theirs", [99, 100, 101])
    first = only(pair_up([ours], [theirs])).ratios[0].ci95
    np.random.seed(7)
    assert only(pair_up([ours], [theirs])).ratios[0].ci95 == first
