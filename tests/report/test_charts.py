"""Charts show the figures of the Records, all of them, each once, and nothing that a Record smuggles in."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from accelmark import published
from accelmark.audit import audit
from accelmark.audit.finding import Finding
from accelmark.compare import study
from accelmark.errors import UsageError
from accelmark.job import Job
from accelmark.record import (
    CeilingShare,
    Latency,
    Metrics,
    Quantity,
    Record,
    Sample,
    Samples,
    Source,
    Status,
    Throughput,
    TrainingRun,
)
from accelmark.report.charts import Chart, charts, record_chart, theme, to_png, to_svg
from accelmark.report.charts.chart import DATA, slug
from accelmark.report.charts.marks import HOLLOW, RINGED
from accelmark.system import Accelerator, System
from tests.records import record, windows

SVG = "{http://www.w3.org/2000/svg}"


def published_records() -> list[Record]:
    return published.load("published") + published.figures("lambda-2021-08")


@pytest.fixture(scope="module")
def all_published() -> list[Chart]:
    records = published_records()
    return charts(records, findings=audit(records))


def drawn_marks(chart: Chart) -> int:
    """The figures that the picture shows: paths in the groups that the specification calls data."""
    groups = [
        group
        for group in ElementTree.fromstring(to_svg(chart)).iter(f"{SVG}g")  # noqa: S314 - our own
        if re.search(rf"\b{DATA}_marks\b", group.get("class", ""))
    ]
    return sum(1 for group in groups for _ in group.findall(f"{SVG}path"))


def largest_of_each_family(found: list[Chart]) -> list[Chart]:
    """Drawing takes a few tenths of a second, so that not all are drawn."""
    families: dict[str, Chart] = {}
    for chart in sorted(found, key=lambda chart: chart.marks):
        families["-".join(chart.name.split("-")[:2])] = chart
    return list(families.values())


def rows(chart: Chart) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["data"]["values"]
    return found


def named(found: list[Chart], name: str) -> Chart:
    return next(chart for chart in found if chart.name == name)


def own(
    identity: str = "a", rate: float = 100.0, ci95: tuple[float, float] | None = None, **changes: Any
) -> Record:
    """A measured Record; names of the Job's fields and of metrics change these."""
    job = {name: changes.pop(name) for name in list(changes) if name in Job.model_fields}
    metrics = {name: changes.pop(name) for name in list(changes) if name in Metrics.model_fields}
    board = changes.pop("board", "Board 1")
    fields = {
        "network": "resnet50-v1.5",
        "framework": "pytorch",
        "engine": "eager",
        "precision": "fp16",
        "batch_size": 8,
    }
    kind = changes.pop("kind", "cuda")
    unit = changes.pop("unit", "images/s")
    return record(
        identity,
        job=Job(**{**fields, **job}),
        system=System(name=board, accelerator=Accelerator(name=board, kind=kind)),
        metrics=Metrics(**{"throughput": Throughput(value=rate, unit=unit, ci95=ci95), **metrics}),
        **{"samples": Samples(), **changes},
    )


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


# All the published rows


def test_every_published_chart_shows_its_marks(all_published: list[Chart]) -> None:
    assert all(chart.marks == len(rows(chart)) >= 2 for chart in all_published)
    for chart in largest_of_each_family(all_published):
        assert drawn_marks(chart) == chart.marks, chart.name


def test_names_are_unique_and_safe_and_pages_are_known(all_published: list[Chart]) -> None:
    names = [chart.name for chart in all_published]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,119}", name) for name in names)
    pages = {chart.page for chart in all_published}
    assert pages == {"overview", "convergence", "training", "inference", "mlperf", "serving", "speech"}
    assert charts(published_records())[0].name == names[0]


def test_the_specifications_are_vega_lite_and_hold_all_they_need(all_published: list[Chart]) -> None:
    import altair

    for chart in [
        *largest_of_each_family(all_published),
        record_chart(record()),
        record_chart(_runs_of_a_set()),
    ]:
        assert chart is not None
        altair.Chart.from_dict(chart.spec)
    for chart in all_published:
        found = set(strings(chart.spec))
        assert "url" not in found
        assert not any("://" in each for each in found)
        assert chart.spec["width"] == "container"
        assert chart.description.startswith(chart.title)


def test_only_the_configuration_differs_between_light_and_dark(all_published: list[Chart]) -> None:
    chart = all_published[0]
    dark = theme(chart.spec, dark=True)
    assert {**dark, "config": None} == {**chart.spec, "config": None}
    assert dark["config"] != chart.spec["config"]
    assert to_svg(chart, dark=True) != to_svg(chart)
    assert to_png(chart, scale=1).startswith(b"\x89PNG")


def test_averages_are_those_of_the_study(all_published: list[Chart]) -> None:
    chart = named(all_published, "relative-training-averages-lambda-2021-08")
    described = published.entry("lambda-2021-08").study
    assert described
    normalised = study.normalise(published.figures("lambda-2021-08"), described.reference, described.groups)
    assert sorted(row["value"] for row in rows(chart)) == sorted(row.average or 0 for row in normalised.rows)
    assert chart.marks == 16


def test_relative_throughput_is_throughput_over_the_references(all_published: list[Chart]) -> None:
    by_id = {each.id: each for each in published_records()}
    chart = named(all_published, "relative-training-pytorch-rtx-3090-tf32-1x")
    reference = {
        each.job.network: each.metrics.throughput.value
        for each in published.figures("lambda-2021-08")
        if each.metrics.throughput
        and (each.system.name, each.job.accelerators, each.job.precision) == ("RTX 3090", 1, "tf32")
    }
    for row in rows(chart):
        figure = by_id[row["record"]]
        assert figure.metrics.throughput
        assert row["value"] == pytest.approx(figure.metrics.throughput.value / reference[figure.job.network])
        assert "low" not in row
    assert {row["label"] for row in rows(chart)} >= {
        "RTX A6000, fp16",
        "RTX 3090, tf32",
        "A100-SXM4-80GB, fp16",
    }


def test_bars_are_sorted_under_each_heading(all_published: list[Chart]) -> None:
    chart = named(all_published, "relative-training-pytorch-t4-fp16-1x")
    for _, group in itertools.groupby(rows(chart), key=lambda row: row["heading"]):
        values = [row["value"] for row in group]
        assert values == sorted(values, reverse=True)
    minutes = named(all_published, "convergence-mxnet")
    assert [row["value"] for row in rows(minutes)] == [40, 168, 478]


def test_published_speed_up_needs_the_same_batch(all_published: list[Chart]) -> None:
    chart = named(all_published, "speed-up-ssd300-resnet50")
    found = {(row["series"], row["x"]): row["value"] for row in rows(chart)}
    # 8 A100 at 128 an accelerator (row 116 of the page) over one at 128 (row 177).
    assert found["A100-SXM4-80GB, fp16, batch 128", 8] == pytest.approx(3092 / 442)
    assert found["RTX 3090, tf32, batch 80", 8] == pytest.approx(888 / 137)
    # A6000, fp16: 912 on one, 928 on each of 8.
    resnet = named(all_published, "speed-up-resnet50-v1.5")
    assert not any("A6000, fp16" in row["series"] for row in rows(resnet))
    assert "same batch size" in resnet.note


def test_published_latency_stands_beside_the_chunk(all_published: list[Chart]) -> None:
    chart = named(all_published, "latency-over-streams-quartznet-15x5-best-streaming-throughput-800-ms")
    by_id = {each.id: each for each in published_records()}
    for row in rows(chart):
        figure = by_id[row["record"]]
        assert figure.metrics.latency_ms
        assert row["value"] == figure.metrics.latency_ms.mean
        assert row["x"] == figure.job.parameters["streams"]
    rule = chart.spec["layer"][0]
    assert rule["encoding"]["y"]["datum"] == 800
    assert "800 ms" in chart.spec["layer"][1]["mark"]["text"]
    assert chart.spec["layer"][0]["mark"]["type"] == "rule"


def test_published_time_to_train_and_time_to_first_audio(all_published: list[Chart]) -> None:
    chart = named(all_published, "time-to-train-resnet50-v1.5-mlperf-training-0.7")
    found = [(row["x"], row["value"]) for row in rows(chart)]
    assert found == [(8, 39.78), (16, 23.75), (768, 1.06), (1536, 0.83), (1840, 0.76)]
    assert {
        layer["encoding"][axis]["scale"]["type"] for layer in chart.spec["layer"][2:3] for axis in "xy"
    } == {"log"}
    audio = named(all_published, "first-audio-over-streams-text-to-speech")
    assert {(row["series"], row["x"]): row["value"] for row in rows(audio)}["A100-SXM4-40GB", 4] == 480


def test_published_power_is_never_mixed(all_published: list[Chart]) -> None:
    by_id = {each.id: each for each in published_records()}
    efficiencies = [chart for chart in all_published if chart.name.startswith("efficiency-")]
    assert len(efficiencies) == 19
    for chart in efficiencies:
        bases = {by_id[row["record"]].metrics.power_basis for row in rows(chart)}
        assert len(bases) == 1
        for row in rows(chart):
            efficiency = by_id[row["record"]].metrics.efficiency
            assert efficiency
            assert row["value"] == efficiency.value


def test_printed_ratios(all_published: list[Chart]) -> None:
    values = sorted(row["value"] for row in rows(named(all_published, "printed-ratios-rtx-3090")))
    assert values == sorted(each.metrics.ratio or 0 for each in published.load("lambda-2021-08"))


# Own Records


def scaling_records() -> list[Record]:
    return [
        own("one", 100, (98, 102)),
        own("two", 190, (185, 195), accelerators=2),
        own("four", 360, (350, 370), accelerators=4, status=Status.NOISY),
        own("other-batch", 900, accelerators=8, batch_size=16),
    ]


def test_speed_up_has_intervals_of_both_sides() -> None:
    chart = named(charts(scaling_records()), "speed-up-resnet50-v1.5")
    found = {row["x"]: row for row in rows(chart)}
    assert {x: row["value"] for x, row in found.items()} == {1: 1.0, 2: 1.9, 4: 3.6}
    assert "low" not in found[1]
    # Relative half-widths add in squares: 2 % and 5/190.
    half = (0.02**2 + (5 / 190) ** 2) ** 0.5
    assert found[2]["high"] == pytest.approx(1.9 * 2.718281828**half)
    assert drawn_marks(chart) == 3
    assert "1 Record of several" in chart.note
    ideal = chart.spec["layer"][0]["data"]["values"]
    assert ideal == [{"x": 1.0, "value": 1.0}, {"x": 4.0, "value": 4.0}]


def test_processes_on_one_cpu_have_a_flat_ideal() -> None:
    chart = charts([own("one", 100, kind="cpu"), own("two", 95, accelerators=2, kind="cpu")])
    found = named(chart, "speed-up-resnet50-v1.5-cpu")
    assert found.spec["layer"][0]["data"]["values"][-1] == {"x": 2.0, "value": 1.0}


def test_noisy_is_hollow_and_doubtful_ringed_both_with_a_legend() -> None:
    finding = Finding(
        rule="above-peak", severity="error", records=("two",), expected="1", found="2", message="too fast"
    )
    chart = named(charts(scaling_records(), findings=[finding]), "speed-up-resnet50-v1.5")
    assert {row["record"]: row["state"] for row in rows(chart)}["four"] == "noisy"
    assert [row["record"] for row in rows(chart) if "doubt" in row] == ["two"]
    assert "four" in chart.note
    assert "two: above-peak" in chart.note
    svg = to_svg(chart)
    assert HOLLOW in svg
    assert RINGED in svg
    assert svg.count('fill-opacity="0"') == 1
    assert 'stroke="#E0453A"' in svg
    plain = named(charts(scaling_records()[:2]), "speed-up-resnet50-v1.5")
    assert HOLLOW not in to_svg(plain)
    assert RINGED not in to_svg(plain)


def test_a_note_of_the_audit_is_no_doubt() -> None:
    finding = Finding(rule="r", severity="note", records=("two",), expected="1", found="2", message="m")
    assert not any(
        "doubt" in row for chart in charts(scaling_records(), findings=[finding]) for row in rows(chart)
    )


def test_tiny_stands_alone() -> None:
    full = [own("a"), own("b", 50, board="Board 2")]
    tiny = [own(f"t{each.id}", 9000, size="tiny", board=each.system.name) for each in full]
    found = charts([*full, *tiny])
    assert len(found) == 2
    for chart in found:
        ids = {row["record"] for row in rows(chart)}
        assert ids in ({"a", "b"}, {"ta", "tb"})
        assert ("(tiny)" in chart.title) == (ids == {"ta", "tb"})
        assert chart.name.endswith("-tiny") == (ids == {"ta", "tb"})


def test_what_is_no_result_is_not_drawn() -> None:
    failed = [
        own(f"x{i}", status=status, board=f"Board {i}")
        for i, status in enumerate(Status)
        if status not in (Status.OK, Status.NOISY)
    ]
    assert charts([own("a"), *failed]) == []


def test_the_newest_of_several_is_drawn() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    found = charts(
        [
            own("new", 200, started_at=day + timedelta(days=1), scenario="inference"),
            own("old", 100, started_at=day, scenario="inference"),
            own("other", 50, board="Board 2", scenario="inference"),
        ]
    )
    assert [(row["record"], row["value"]) for row in rows(found[0])] == [("new", 200), ("other", 50)]
    assert "older" in found[0].note


def test_inference_over_batch_by_partition() -> None:
    records = [
        own(
            f"{partition}{batch}",
            rate * batch,
            (rate * batch * 0.9, rate * batch * 1.1),
            scenario="inference",
            batch_size=batch,
            partition=partition,
            latency_ms=Latency(mean=batch / rate * 1000),
        )
        for partition, rate in ((None, 70.0), ("1/7", 10.0))
        for batch in (1, 2, 8)
    ]
    found = charts(records)
    throughput = named(found, "throughput-over-batch-resnet50-v1.5-images-s")
    latency = named(found, "latency-over-batch-resnet50-v1.5")
    by_id = {each.id: each for each in records}
    for row in rows(throughput):
        metric = by_id[row["record"]].metrics.throughput
        assert metric
        assert (row["value"], (row["low"], row["high"])) == (metric.value, metric.ci95)
    assert {row["series"] for row in rows(throughput)} == {"Board 1", "Board 1, 1/7"}
    assert {row["x"]: row["value"] for row in rows(latency) if row["series"] == "Board 1"} == {
        1: pytest.approx(1000 / 70),
        2: pytest.approx(2000 / 70),
        8: pytest.approx(8000 / 70),
    }
    assert drawn_marks(throughput) == drawn_marks(latency) == 6


def test_means_and_medians_are_not_in_one_chart() -> None:
    records = [
        own(
            f"{name}{batch}",
            scenario="inference",
            batch_size=batch,
            latency_ms=Latency(**{name: 5.0 * batch}),
        )
        for name in ("mean", "p50")
        for batch in (1, 2)
    ]
    found = {chart.name for chart in charts(records)}
    assert {"latency-over-batch-resnet50-v1.5", "latency-over-batch-resnet50-v1.5-median"} <= found


def test_ceilings_and_shares() -> None:
    ceiling = own(
        "c",
        4e13,
        (3.9e13, 4.1e13),
        scenario="ceiling",
        network="matrix-product",
        unit="FLOP/s",
        framework=None,
        batch_size=None,
    )
    other = own(
        "d",
        2e13,
        scenario="ceiling",
        network="matrix-product",
        unit="FLOP/s",
        precision="fp32",
        batch_size=None,
    )
    share = CeilingShare(share=0.4, flops_per_s=1.6e13, ceiling_flops_per_s=4e13, reference="c")
    found = charts(
        [
            ceiling,
            other,
            own("a", 100, (99, 101), ceiling=share),
            own("b", 100, ceiling=share.model_copy(update={"share": 0.2}), precision="bf16"),
        ]
    )
    bars = named(found, "ceiling-matrix-product-flop-s")
    assert sorted(row["value"] for row in rows(bars)) == [20, 40]
    assert bars.spec["layer"][0]["encoding"]["x"]["title"] == ["TFLOP/s"]
    shares = {
        row["record"]: row for row in rows(next(c for c in found if c.name.startswith("ceiling-share")))
    }
    assert shares["a"]["value"] == pytest.approx(40)
    assert shares["a"]["low"] == pytest.approx(40 * 2.718281828 ** -((0.01**2 + 0.025**2) ** 0.5))
    assert shares["b"]["value"] == pytest.approx(20)
    assert "low" not in shares["b"]


def test_efficiency_by_kind_of_power() -> None:
    found = charts(
        [
            own(
                f"{basis}{board}",
                board=board,
                efficiency=Quantity(value=value, unit="images/s/W"),
                power_basis=basis,
            )
            for basis, value in (("board", 4.0), ("system", 2.0))
            for board in ("Board 1", "Board 2")
        ]
    )
    mine = [chart for chart in found if chart.name.startswith("efficiency")]
    assert sorted([row["value"] for row in rows(chart)] for chart in mine) == [[2.0, 2.0], [4.0, 4.0]]


def test_baseline() -> None:
    records = [own("a", 100, board="Board 1"), own("b", 50, board="Board 2"), own("c", 25, board="Board 3")]
    for baseline in ("Board 2", "Board 2:fp16", "Board 2:mixed"):
        chart = charts(records, baseline)[0]
        assert [row["value"] for row in rows(chart)] == [2.0, 1.0, 0.5]
        assert "relative to one Board 2" in chart.title
    assert [row["value"] for row in rows(charts(records)[0])] == [1.0, 0.5, 0.25]
    with pytest.raises(UsageError, match="Board 22"):
        charts(records, "Board 22")


def test_frameworks_and_compiled_runs_are_not_mixed() -> None:
    records = [
        own(f"{framework}{engine}{board}", framework=framework, engine=engine, board=board)
        for framework, engine in (("pytorch", "eager"), ("pytorch", "compile"), ("mxnet", None))
        for board in ("Board 1", "Board 2")
    ]
    assert [chart.marks for chart in charts(records)] == [2, 2, 2]


def _runs_of_a_set() -> Record:
    minutes = (10.0, 11.0, None, 12.0, 10.5)
    return own(
        "set",
        scenario="time-to-quality",
        samples=Samples(
            runs=[TrainingRun(minutes=each, reason=None if each else "stopped") for each in minutes]
        ),
        time_to_train_min=11.2,
    )


# One Record


def test_windows_of_a_record() -> None:
    measured = [*windows(100, 4, 0), *windows(110, 4, 1)]
    warm = [window.model_copy(update={"units": window.units / 2}) for window in windows(100, 2)]
    sensors = [Sample(time_s=i, clock_mhz=1000 + i, power_w=200 + i) for i in range(3)]
    chart = record_chart(record(samples=Samples(windows=measured, warm_up=warm, telemetry=sensors)))
    assert chart is not None
    assert drawn_marks(chart) == chart.marks == 10
    said = re.findall(r'aria-label="(process [^"]*)"', to_svg(chart))
    rates = [100] * 4 + [110] * 4 + [50] * 2
    phases = ["measured"] * 8 + ["warm-up"] * 2
    starts = [0, 0.5, 1, 1.5] * 2 + [0, 0.5]
    assert said == [
        f"process {1 + (4 <= place < 8)}, {phase}, {start:.3f} to {start + 0.5:.3f} s, "
        f"{window.steps} steps: {rate} images/s"
        for place, (rate, phase, start, window) in enumerate(
            zip(rates, phases, starts, [*measured, *warm], strict=True)
        )
    ]
    assert chart.spec["layer"][0]["data"]["values"] == [{"from": 0, "to": 1.0}]
    svg = to_svg(chart)
    assert "Clock (MHz)" in svg
    assert "Power (W)" in svg


def test_very_many_windows_are_thinned() -> None:
    chart = record_chart(record(samples=Samples(windows=windows(count=20_000))))
    assert chart is not None
    assert 700 < chart.marks <= 1500
    assert "not drawn" in chart.note


def test_runs_of_a_set() -> None:
    chart = record_chart(_runs_of_a_set())
    assert chart is not None
    assert [(row["x"], row["value"]) for row in rows(chart)] == [(1, 10), (2, 11), (4, 12), (5, 10.5)]
    assert "run 3 has no time: stopped" in chart.note.lower()
    assert drawn_marks(chart) == 4


def test_no_samples_no_chart() -> None:
    assert record_chart(own()) is None


# Hostile Records


HOSTILE = (
    "<script>alert(1)</script>\u202eright to left\u202c javascript:alert(1) \\" + "x" * 90,
    "quote \" and ' \"+constructor+\" </text><image href='http://e/x'/>../..\n\x1b[31m @a.b[0]\\d`${x}`",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text(text: str) -> None:
    records = [
        own(
            f"{text} {i} {scenario}"[-200:],
            100 + i,
            network=text,
            scenario=scenario,
            board=f"{text[:100]} {board}",
            precision="fp16",
            batch_size=2**i,
            partition=text,
            parameters={"task": text, "mode": text, "streams": i + 1, "chunk_ms": 100},
            conditions={text: text},
            latency_ms=Latency(mean=1.0 + i),
            efficiency=Quantity(value=1.0 + i, unit=text),
        )
        for scenario in ("training", "inference", "speech-recognition")
        for board in (1, 2)
        for i in (0, 1)
    ]
    doubt = Finding(
        rule=text, severity="error", records=(records[0].id,), expected=text, found=text, message=text
    )
    found = charts(records, findings=[doubt])
    windowed = record_chart(records[0].replace(samples=Samples(windows=windows())))
    assert windowed is not None
    assert len(found) >= 4
    for chart in found:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", chart.name)
        assert len(chart.name) <= 130
        said = json.dumps([chart.spec, chart.title, chart.note, chart.description], ensure_ascii=False)
        assert not any(each in said for each in ("\u202e", "\u202c", "\x1b"))
        assert "url" not in set(strings(chart.spec))
    for chart in [*largest_of_each_family(found), windowed]:
        assert drawn_marks(chart) == chart.marks
        svg = to_svg(chart)
        assert not any(each in svg for each in ("<script", "<image", "\u202e", "\u202c", "\x1b"))
        elements = list(ElementTree.fromstring(svg).iter())  # noqa: S314 - our own
        assert not any("href" in name for element in elements for name in element.attrib)


def test_a_megabyte_of_text_and_absurd_numbers() -> None:
    records = [
        own(
            f"{i}",
            1e308 if i else 1e-300,
            scenario="inference",
            batch_size=10**400 if i == 2 else 10**i,
            parameters={"task": "y" * 1_000_000, "streams": 10**400},
            conditions={"note": "z" * 1_000_000},
            latency_ms=Latency(mean=1e-300 if i else 1e300),
        )
        for i in range(3)
    ]
    for chart in charts(records):
        assert len(json.dumps(chart.spec)) < 100_000
        assert drawn_marks(chart) == chart.marks == 2


def test_names_tell_different_things_apart() -> None:
    assert slug(("speed-up", "resnet50-v1.5")) == "speed-up-resnet50-v1.5"
    assert slug(("a", "b", None)) == "a-b"
    assert slug(("a", "é")) != slug(("a", "è"))
    assert slug(("..", "/")) not in ("", ".", "..")
    assert len(slug(("a" * 5000,))) <= 120


# Very many Records


def many(count: int) -> list[Record]:
    """Records of all families on many boards, networks and batches, copied without validating each."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = []
    for i in range(count):
        scenario = ("training", "inference", "speech-recognition", "time-to-quality")[i % 4]
        base = own("x", scenario=scenario)
        job = base.job.model_copy(
            update={
                "network": f"net-{i // 4 % 60}",
                "batch_size": 2 ** (i // 240 % 8),
                "accelerators": (1, 2, 4, 8)[i // 16 % 4] if scenario == "training" else 1,
                "parameters": {"streams": i % 97 + 1, "chunk_ms": 100},
            }
        )
        board = f"Board {i // 480 % 70}"
        system = System(name=board, accelerator=Accelerator(name=board))
        metrics = base.metrics.model_copy(
            update={"latency_ms": Latency(mean=1.0 + i), "time_to_train_min": 1.0 + i}
        )
        changes = {
            "job": job,
            "system": system,
            "metrics": metrics,
            "started_at": start + timedelta(seconds=i),
        }
        made.append(base.model_copy(update={"id": f"r{i}", **changes}))
    return made


def test_very_many_records_give_a_bounded_number_of_charts() -> None:
    found = charts(many(3000))
    pages = [chart.page for chart in found]
    assert max(pages.count(page) for page in pages) <= 24
    for chart in found:
        series = {row.get("series") for row in rows(chart)}
        assert len(series) <= 40
        assert chart.marks == len(rows(chart))
    assert any("left out on this page" in chart.note for chart in found)


def test_sources_are_told_apart() -> None:
    records = [
        own("mine", scenario="inference"),
        own("theirs", 90, scenario="inference", source=Source.PUBLISHED),
    ]
    assert {row["series"] for row in rows(charts(records)[0])} == {"Board 1, measured", "Board 1, published"}
