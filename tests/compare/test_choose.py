"""How many accelerators serve a load: arithmetic, bounds, power, price, and what is assumed."""

from __future__ import annotations

from typing import Any

import pytest

from accelmark import published
from accelmark.compare.choose import Need, choose
from accelmark.compare.parts import share
from accelmark.compare.prices import Prices
from accelmark.job import Job
from accelmark.names import facts
from accelmark.record import Latency, Metrics, Quantity, Record, Samples, Status, Throughput
from accelmark.system import Accelerator, System
from tests.records import record


def served(
    identity: str, value: float, board: str = "A10", metrics: dict[str, Any] | None = None, **job: Any
) -> Record:
    fields = {"network": "bert-large", "scenario": "server", **job}
    count = fields.get("accelerators", 1)
    return record(
        identity,
        job=Job(**fields),
        system=System(name=board, accelerator=Accelerator(name=board, count=count)),
        metrics=Metrics(throughput=Throughput(value=value, unit="queries/s"), **(metrics or {})),
        samples=Samples(),
    )


NEED = Need("bert-large", "server", rate=1000, latency_ms=130)
WITHIN = {"latency_bound_ms": 130}


@pytest.mark.parametrize(
    ("throughput", "on", "copies", "accelerators", "spare"),
    [
        (1000, 1, 1, 1, 0.0),
        (999, 1, 2, 2, 1 - 1000 / 1998),
        (300, 1, 4, 4, 1 / 6),
        (2500, 8, 1, 8, 0.6),
        (600, 8, 2, 16, 1 / 6),
    ],
)
def test_how_many(throughput: float, on: int, copies: int, accelerators: int, spare: float) -> None:
    (choice,) = choose([served("a", throughput, accelerators=on, parameters=WITHIN)], NEED).found
    assert (choice.copies, choice.accelerators) == (copies, accelerators)
    assert choice.spare == pytest.approx(spare)
    assert any("linear scaling" in words for words in choice.assumptions) == (copies > 1)


def test_parts_of_an_accelerator_are_counted_by_their_share() -> None:
    part = served("a", 100, "A100-SXM4-80GB", partition="1g.10gb", parameters=WITHIN)
    assert share(part) == pytest.approx(1 / 7)
    (choice,) = choose([part], NEED).found
    assert (choice.copies, choice.accelerators) == (10, 2)
    seven = served("b", 700, "A100-SXM4-80GB", partition="1/7", parameters={**WITHIN, "instances": 7})
    assert share(seven) == 1
    assert choose([seven], NEED).found[0].accelerators == 2
    assert share(served("c", 1, "A30", partition="1g.6gb")) == pytest.approx(1 / 4)
    assert share(served("d", 1, partition="half of it")) is None


def test_the_bound_is_held_against_what_was_measured() -> None:
    late = served("late", 1000, parameters={"latency_bound_ms": 131})
    silent = served("silent", 1000)
    p99 = served("p99", 1000, metrics={"latency_ms": Latency(mean=1, p99=129)})
    slow = served("slow", 1000, metrics={"latency_ms": Latency(mean=1, p99=131)})
    mean = served("mean", 1000, metrics={"latency_ms": Latency(mean=129)})
    crashed = served("crashed", 1000, parameters=WITHIN).replace(status=Status.CRASHED)
    choices = choose([late, silent, p99, slow, mean, crashed], NEED)
    assert {choice.record.id for choice in choices.found} == {"p99", "mean"}
    assert {record.id: why for record, why in choices.rejected} == {
        "late": "it was measured under a bound of 131 ms",
        "silent": "its latency is not stated",
        "slow": "its p99 latency is 131 ms",
        "crashed": "its status is crashed",
    }
    assert any("mean latency" in words for words in choices.found[0].assumptions) or any(
        "mean latency" in words for words in choices.found[1].assumptions
    )


def test_power_is_measured_or_the_boards_limit() -> None:
    efficient = {"efficiency": Quantity(value=5, unit="queries/s/W"), "power_basis": "system"}
    measured = choose([served("a", 2000, parameters=WITHIN, metrics=efficient)], NEED).found[0].power
    assert measured is not None
    assert (measured.watts, measured.of) == (200, "system, measured")
    limit = choose([served("a", 400, parameters=WITHIN)], NEED).found[0].power
    assert limit is not None
    assert (limit.watts, limit.of) == (3 * 150, "boards' limit, not measured")
    assert choose([served("a", 400, "Unknown", parameters=WITHIN)], NEED).found[0].power is None


def test_the_cheapest_first_where_prices_are_known() -> None:
    few = served("few", 1000, "A100-SXM4-80GB", parameters=WITHIN)
    many = served("many", 300, "T4", parameters=WITHIN)
    assert [choice.record.id for choice in choose([many, few], NEED).found] == ["few", "many"]
    prices = Prices.model_validate(
        {"currency": "USD", "date": "2026-11-30", "per": "hour", "prices": {"T4": 0.3, "A100-SXM4-80GB": 2}}
    )
    choices = choose([many, few], NEED, prices).found
    assert [(choice.record.id, choice.price) for choice in choices] == [
        ("many", pytest.approx(1.2)),
        ("few", 2),
    ]


def test_the_published_rows_answer_the_readmes_question() -> None:
    need = Need("bert-large", "server", rate=20000, latency_ms=130)
    found = choose(published.load("published"), need).found
    first = found[0]
    assert (first.record.id, first.copies, first.accelerators) == ("nvidia-2021-04/394", 7, 7)
    whole = next(choice for choice in found if choice.record.id == "nvidia-2021-04/395")
    assert (whole.copies, whole.accelerators, whole.assumptions) == (1, 8, ())


def test_a_rule_books_bound_holds_where_a_row_does_not_repeat_it() -> None:
    """The page's power tables do not print the bound that the rules set; they are where power is known."""
    need = Need("bert-large", "server", rate=20000, latency_ms=130)
    found = {choice.record.id: choice for choice in choose(published.load("published"), need).found}
    power = found["nvidia-2021-04/440"].power
    assert power is not None
    assert power.of == "system, measured"
    assert power.watts == pytest.approx(20000 / 6.03)
    tighter = Need("bert-large", "server", rate=20000, latency_ms=129)
    assert choose(published.load("published"), tighter).found == ()


def test_bounds_of_the_rule_book_are_those_that_the_page_prints() -> None:
    printed = {
        (record.job.network, record.job.parameters["latency_bound_ms"])
        for record in published.load("published")
        if record.job.scenario == "server" and "latency_bound_ms" in record.job.parameters
    }
    assert printed == {
        (network, facts.latency_bound_ms("mlperf-inference-1.0", network)) for network, _ in printed
    }
