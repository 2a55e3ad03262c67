"""The audit as a whole: the published rows, any order, any Records, many of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmark.audit import RULES, SEVERITIES, audit
from accelmark.importers.lambda_csv import read
from accelmark.published import figures, load
from accelmark.published.rounding import printed_half_unit
from accelmark.record import (
    Latency,
    Metrics,
    Origin,
    Quality,
    Quantity,
    Record,
    Sample,
    Samples,
    Status,
    Throughput,
)
from accelmark.record import Window as MeasuredWindow
from tests.audit.rows import row
from tests.importers.test_lambda_csv import TABLES, needs_tables
from tests.records import record

#: Everything found on the 533 published rows, by line of NVIDIA's page. Another line here needs a reason.
PUBLISHED = """\
error    batch-over-latency  512
error    batch-over-latency  583
error    paced-streams       666
error    above-peak          604
error    above-peak          607
warning  above-peak          606
warning  odd-unit            135
warning  changing-precision  603 604
warning  changing-precision  605 606 607
warning  unknown-target      353 354 355 356 357 358 359 391 392 393 394 395 396 397
warning  larger-faster       758
warning  repeated-figures    717
warning  copied-column       504 505 506 507 508 509 510 511 512 513
warning  exact-multiple      175
note     above-peak          648
"""


def test_the_published_rows_have_the_known_faults_and_no_others() -> None:
    lines = []
    for finding in audit(load("published")):
        assert all(identity.startswith("nvidia-2021-04/") for identity in finding.records)
        numbers = " ".join(identity.rpartition("/")[2] for identity in finding.records)
        lines.append(f"{finding.severity:7}  {finding.rule:18}  {numbers}\n")
    assert "".join(lines) == PUBLISHED


def test_a_finding_says_what_was_expected_found_and_compared() -> None:
    by_rule = {(f.rule, f.records[0].rpartition("/")[2]): f for f in audit(load("published"))}
    copied = by_rule["copied-column", "504"]
    assert copied.against == tuple(f"nvidia-2021-04/{line}" for line in range(477, 487))
    assert by_rule["exact-multiple", "175"].found == "22,008 / 8 = 2,751"
    assert by_rule["larger-faster", "758"].against == ("nvidia-2021-04/761",)
    assert by_rule["batch-over-latency", "583"].expected == "2,930 sequences/s"
    assert by_rule["batch-over-latency", "583"].found == "3,634 sequences/s"
    assert by_rule["paced-streams", "666"].expected == "RTFX 230.4 to 256"
    assert all(f.message and f.expected and f.found and "\n" not in f.message for f in by_rule.values())


def test_lambdas_figures_are_sound() -> None:
    assert audit(figures("lambda-2021-08")) == []


@needs_tables
def test_lambdas_tables_are_sound() -> None:
    assert audit(read(TABLES)[0]) == []


def test_the_order_of_the_records_does_not_matter() -> None:
    records = load("published")
    expected = audit(records)
    for seed in range(5):
        random.Random(seed).shuffle(records)  # noqa: S311 - an order, no secret
        assert audit(records) == expected


def test_records_that_are_no_results_are_left_out() -> None:
    broken = row("a", 4000.0, latency=10.0, batch_size=8)
    assert audit([broken])
    for status in Status:
        expected = status in (Status.OK, Status.NOISY)
        assert bool(audit([broken.replace(status=status)])) is expected


def test_nothing_has_nothing_wrong_with_it() -> None:
    assert audit([]) == []
    assert audit([record()]) == []


def test_every_rule_says_what_it_assumes() -> None:
    assert all(rule.__doc__ for rule in RULES)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_latency_off_by_a_factor_of_two_is_seen_in_every_row(factor: float) -> None:
    checked = 0
    for published in load("published"):
        latency = published.metrics.latency_ms
        if published.job.scenario not in ("inference", "serving", "language-service") or latency is None:
            continue
        if published.origin is None or published.origin.row is None:
            continue
        wrong = Latency(mean=(latency.mean or 0) * factor)
        changed = published.replace(metrics=published.metrics.model_copy(update={"latency_ms": wrong}))
        rules = {finding.rule for finding in audit([changed])}
        assert rules & {"batch-over-latency", "littles-law"}, published.id
        checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("BERT | 8 | 3,634 sequences/sec | 2.73 | x", 3634, 0.5),
        ("BERT | 8 | 3,634 sequences/sec | 2.73 | x", 2.73, 0.005),
        ("BERT | 8 | 3,634 sequences/sec | 2.73 | x", 8, 0.5),
        ("1,234.5 | .34 AP", 1234.5, 0.05),
        ("1,234.5 | .34 AP", 0.34, 0.005),
        ("90.07% f1", 90.07, 0.005),
        ("7.0 | 7", 7, 0.5),
        ("ssd: 8x RTX A6000,8.0,1057.0,93.0", 1057, 0.05),
        ("64,254,3", 254, 0.5),
        ("2 | 1,400 images/sec | 1.00", 1, 0.005),
        ("throughput 1.5e3", 1500, 50),
        ("1e99 | 12345678901234567890123456789012345678901234567890", 5, 0.0),
        ("2.73", 2.74, 0.0),
        ("", 1, 0.0),
    ],
)
def test_half_a_unit_of_the_last_printed_place(text: str, value: float, half: float) -> None:
    printed = record().replace(origin=Origin(row=text))
    assert printed_half_unit(printed, value) == pytest.approx(half)


def test_a_measurement_of_ones_own_is_not_rounded() -> None:
    assert printed_half_unit(record(), 100.0) == 0.0


positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
numbers = st.one_of(positive, st.sampled_from([1.0, 8.0, 100.0, 2751.0, 22008.0, 28.57, 0.71]))
counts = st.one_of(st.integers(1, 512), st.integers(1, 10**40))
scalars = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=9)
)
names_of_parameters = (
    "instances",
    "streams",
    "concurrent_requests",
    "client_batch_size",
    "chunk_ms",
    "task",
    "rules",
    "mode",
    "load",
)
parameters = st.dictionaries(
    st.sampled_from(names_of_parameters),
    st.one_of(
        scalars, counts, st.sampled_from(["real-time paced", "mlperf-inference-1.0", "mlperf-training-0.7"])
    ),
    max_size=4,
)
units = st.sampled_from(
    ["images/s", "sequences/s", "samples/s", "queries/s", "requests/s", "RTFX", "tokens/s", "?"]
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "network": draw(
            st.sampled_from(["resnet50-v1.5", "bert-base", "bert-large", "bert-large-sparse", "rnnt", "?"])
        ),
        "scenario": draw(
            st.sampled_from(
                [
                    "inference",
                    "training",
                    "time-to-quality",
                    "serving",
                    "server",
                    "speech-recognition",
                    "ceiling",
                    "?",
                ]
            )
        ),
        "parameters": draw(parameters),
        "precision": draw(st.sampled_from([None, "fp32", "fp16", "int8", "fp8", "?"])),
        "batch_size": draw(st.none() | counts),
        "accelerators": draw(counts),
        "partition": draw(st.none() | st.sampled_from(["1/7", "1g.10gb", "9g.1gb", "?"])),
        "sequence_length": draw(st.none() | st.sampled_from([128, 384, 77])),
        "size": draw(st.sampled_from(["full", "tiny"])),
    }


@st.composite
def any_record(draw: st.DrawFn) -> Record:
    maybe = st.none() | numbers
    finite = st.floats(allow_nan=False, allow_infinity=False)
    metrics = Metrics(
        throughput=draw(st.none() | st.builds(Throughput, value=numbers, unit=units)),
        latency_ms=draw(st.none() | st.builds(Latency, mean=maybe, p50=maybe, p99=maybe)),
        time_to_train_min=draw(maybe),
        energy_j=draw(maybe),
        power_w=draw(maybe),
        flops_per_sample=draw(maybe),
        power_basis=draw(st.sampled_from([None, "board", "system"])),
        energy_source=draw(st.sampled_from([None, "NVML, board"])),
        efficiency=draw(st.none() | st.builds(Quantity, value=finite, unit=st.just("images/s/W"))),
        quality=draw(
            st.lists(
                st.builds(
                    Quality, metric=st.sampled_from(["F1, %", "F1", "WER", "?"]), target=st.none() | finite
                ),
                max_size=2,
            )
        ),
    )
    samples = Samples(
        windows=draw(
            st.lists(
                st.builds(
                    MeasuredWindow,
                    process=st.integers(0, 2),
                    start_s=numbers,
                    seconds=numbers,
                    units=numbers,
                    steps=counts,
                ),
                max_size=4,
            )
        ),
        telemetry=draw(
            st.lists(
                st.builds(Sample, time_s=st.floats(0, 9) | numbers, power_w=st.none() | finite), max_size=8
            )
        ),
    )
    board = draw(st.sampled_from(["T4", "A100-SXM4-80GB", "A100-SXM4-40GB", "?"]))
    made = row("x", board=board, status=draw(st.sampled_from(list(Status))), **draw(jobs()))
    printed = draw(st.none() | st.text(max_size=30) | numbers.map(str))
    return made.replace(
        metrics=metrics,
        samples=samples,
        conditions=draw(parameters),
        origin=Origin(row=printed, section=draw(st.none() | st.just("s"))) if printed else None,
    )


@settings(max_examples=120, deadline=None)
@given(st.lists(any_record(), max_size=8), st.randoms(use_true_random=False))
def test_any_records_are_audited_alike_in_any_order(records: list[Record], chance: random.Random) -> None:
    records = [made.replace(id=f"r/{i}") for i, made in enumerate(records)]
    findings = audit(records)
    known = {made.id for made in records}
    for finding in findings:
        assert finding.records
        assert known.issuperset({*finding.records, *finding.against})
        assert finding.severity in SEVERITIES
    chance.shuffle(records)
    assert audit(records) == findings


def test_very_many_records_are_grouped_and_not_paired() -> None:
    rows = load("published")
    many = [made.model_copy(update={"id": f"{copy}/{made.id}"}) for copy in range(20) for made in rows]
    assert len(audit(many)) >= 15
