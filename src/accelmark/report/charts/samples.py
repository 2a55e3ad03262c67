"""The raw data of one Record: the rate of each window over time, warm-up and sensors with it; or its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelmark.record import Record, Window
from accelmark.report.charts.chart import DATA, Chart, Spec, slug
from accelmark.report.charts.marks import columns, words
from accelmark.report.charts.material import cut, is_tiny, left_out, sentences, work
from accelmark.text import number

#: More windows than this would lie on one another.
MAX_WINDOWS = 1500
MAX_SAMPLES = 600
PANEL, GAP, SENSOR = 240, 46, 84


def record_chart(record: Record) -> Chart | None:
    """The chart of a Record's samples; `None` if it has none, or fewer than two."""
    if len(record.samples.windows) > 1:
        return _windows(record)
    if sum(run.minutes is not None for run in record.samples.runs) > 1:
        return _runs(record)
    return None


def _thin(items: Sequence[Any], most: int) -> list[Any]:
    step = -(-len(items) // most)
    return list(items[::step]) if step > 1 else list(items)


def _windows(record: Record) -> Chart:
    metric = record.metrics.throughput
    unit = cut(metric.unit, 30) if metric else "units/s"
    rows = [
        *(_row(window, "measured") for window in _thin(record.samples.windows, MAX_WINDOWS)),
        *(_row(window, "warm-up") for window in _thin(record.samples.warm_up, MAX_WINDOWS)),
    ]
    rates = [row["units"] / row["seconds"] for row in rows]
    measured = [rate for rate, row in zip(rates, rows, strict=True) if row["phase"] == "measured"]
    processes = [f"process {process}" for process in sorted({row["process"] for row in rows})]
    title = f"{work(record)}: throughput of each window over time{' (tiny)' if is_tiny(record) else ''}"
    interval = _words(metric.ci95) if metric and metric.ci95 else ""
    return Chart(
        name=slug(("samples", record.id)),
        page="record",
        title=title,
        description=(
            f"{title}: {len(measured)} measured windows of {len(processes)} "
            f"process{'es' if len(processes) != 1 else ''}, from {number(min(measured))} to "
            f"{number(max(measured))} {unit}"
            + (f"; together {number(metric.value)} {unit}{interval}." if metric else ".")
        ),
        spec=_spec(record, rows, rates, processes, unit),
        marks=len(rows),
        note=sentences(
            [
                left_out(
                    len(record.samples.windows) + len(record.samples.warm_up) - len(rows),
                    "of the windows",
                    "of the windows",
                ),
                "shaded: warm-up, which no figure rests on" if record.samples.warm_up else "",
                "the band is the 95 % interval of the throughput" if interval else "",
            ]
        ),
        records=(record.id,),
    )


def _words(ci95: tuple[float, float]) -> str:
    return f", 95 % interval {number(ci95[0])} to {number(ci95[1])}"


def _row(window: Window, phase: str) -> dict[str, Any]:
    """A window as it is in the Record; the drawing computes the rest, which keeps a Record's page small."""
    return {
        "phase": phase,
        "process": window.process + 1,
        "from": window.start_s,
        "seconds": window.seconds,
        "units": window.units,
        "steps": window.steps,
    }


def _computed() -> list[Spec]:
    """What the drawing computes of each window; the unit is a parameter, so no text is in an expression."""
    return [
        {"calculate": expression, "as": name}
        for name, expression in (
            ("to", "datum.from + datum.seconds"),
            ("x", "datum.from + datum.seconds / 2"),
            ("value", "datum.units / datum.seconds"),
            ("of", "'process ' + datum.process"),
            (
                "about",
                "datum.of + ', ' + datum.phase + ', ' + format(datum.from, '.3f') + ' to ' + "
                "format(datum.to, '.3f') + ' s, ' + datum.steps + ' steps: ' + "
                "format(datum.value, ',.6~r') + ' ' + unit",
            ),
        )
    ]


def _spec(
    record: Record,
    rows: list[dict[str, Any]],
    rates: list[float],
    processes: list[str],
    unit: str,
) -> Spec:
    metric, warm = record.metrics.throughput, record.samples.warm_up
    sensors = _sensors(record)
    height = PANEL + (GAP + SENSOR) * len(sensors)
    values = [*rates, *(metric.ci95 or () if metric else ())]
    x = {
        "field": "x",
        "type": "quantitative",
        "title": "Time since the process began to measure (s)",
        "scale": {"zero": True, "nice": False},
        "axis": {"grid": False, "tickCount": 8},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "title": f"Throughput ({unit})",
        # Points may leave out the zero: what is looked for is how much they scatter.
        "scale": {"zero": False, "range": [PANEL, 0], "domain": _around(values), "nice": False},
        "axis": {"orient": "left", "tickCount": 6},
    }
    domain = {"domain": processes}
    legend = None if len(processes) == 1 else {"title": None, "columns": columns(processes)}
    layers: list[Spec] = []
    if warm:
        end = max(window.start_s + window.seconds for window in warm)
        layers.append(
            {
                "data": {"values": [{"from": 0, "to": end}]},
                "mark": {"type": "rect", "style": "shade", "aria": False},
                "encoding": {
                    "x": {"field": "from", "type": "quantitative"},
                    "x2": {"field": "to"},
                    "y": {"value": 0},
                    "y2": {"value": height},
                },
            }
        )
    panel: list[Spec] = []
    if metric:
        panel += _level(metric.value, metric.ci95)
    stroke = {"field": "of", "type": "nominal", "scale": domain, "legend": legend}
    panel.append(
        {
            "mark": {"type": "rule", "strokeWidth": 1, "aria": False},
            "encoding": {
                "x": {**x, "field": "from"},
                "x2": {"field": "to"},
                "y": y,
                "stroke": stroke,
            },
        }
    )
    panel.append(
        {
            "name": DATA,
            "mark": {"type": "point", "filled": True, "size": 34, "strokeWidth": 1.3, "opacity": 1},
            "encoding": {
                "x": x,
                "y": y,
                "stroke": stroke,
                "fill": stroke,
                "shape": stroke,
                "fillOpacity": {
                    "condition": {"test": "datum.phase === 'warm-up'", "value": 0},
                    "value": 1,
                },
                "description": {"field": "about", "type": "nominal"},
                "tooltip": {"field": "about", "title": "window", "type": "nominal"},
            },
        }
    )
    layers.append({"transform": _computed(), "layer": panel})
    for place, (name, readings) in enumerate(sensors.items()):
        top = PANEL + GAP + place * (GAP + SENSOR)
        layers.append(_sensor(name, readings, top))
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": "unit", "value": unit}],
        "data": {"values": rows},
        "layer": layers,
        # Each sensor has a scale of its own, which ends in a panel of its own below the windows.
        "resolve": {"scale": {"y": "independent"}},
    }


def _around(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or high * 0.05
    return [max(0.0, low - room), high + room]


def _level(value: float, ci95: tuple[float, float] | None) -> list[Spec]:
    """The throughput as a dashed line, and its interval as a band over the whole width."""
    datum = {"type": "quantitative"}
    layers: list[Spec] = []
    if ci95 and ci95[0] < ci95[1]:
        layers.append(
            {
                "data": {"values": [{}]},
                "mark": {"type": "rect", "style": "shade", "aria": False},
                "encoding": {"y": {"datum": ci95[0], **datum}, "y2": {"datum": ci95[1]}},
            }
        )
    layers.append(
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "style": "reference", "aria": False},
            "encoding": {"y": {"datum": value, **datum}},
        }
    )
    return layers


def _sensors(record: Record) -> dict[str, list[dict[str, float]]]:
    """Readings of clock and power over time, those that there are."""
    found = {}
    for name, field in (("Clock (MHz)", "clock_mhz"), ("Power (W)", "power_w")):
        readings = [
            {"x": sample.time_s, "reading": reading}
            for sample in record.samples.telemetry
            if (reading := getattr(sample, field)) is not None
        ]
        if len(readings) > 1:
            found[name] = _thin(readings, MAX_SAMPLES)
    return found


def _sensor(name: str, readings: list[dict[str, float]], top: int) -> Spec:
    values = [reading["reading"] for reading in readings]
    return {
        "data": {"values": readings},
        "mark": {"type": "line", "style": "interval", "interpolate": "step-after", "aria": False},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {
                "field": "reading",
                "type": "quantitative",
                "title": name,
                "scale": {"range": [top + SENSOR, top], "domain": _around(values), "nice": False},
                "axis": {"orient": "left", "offset": 0, "tickCount": 3},
            },
        },
    }


def _runs(record: Record) -> Chart:
    """The runs of a set that time to train is scored from, and the score."""
    times = {
        place: run.minutes for place, run in enumerate(record.samples.runs, 1) if run.minutes is not None
    }
    rows = [
        {"x": place, "value": minutes, "about": f"run {place}: {minutes:,.6g} minutes"}
        for place, minutes in times.items()
    ]
    failed = [
        f"run {place} has no time: {cut(run.reason or 'no reason given', 80)}"
        for place, run in enumerate(record.samples.runs, 1)
        if run.minutes is None
    ]
    score = record.metrics.time_to_train_min
    title = f"{work(record)}: time of each run of the set{' (tiny)' if is_tiny(record) else ''}"
    x = {
        "field": "x",
        "type": "quantitative",
        "title": "Run",
        "axis": {"grid": False, "tickMinStep": 1, "format": "d"},
        "scale": {"zero": False, "padding": 20, "nice": False},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "title": "Time to train (minutes)",
        "scale": {
            "zero": False,
            "padding": 16,
            "domain": _around([*times.values(), *([score] if score else [])]),
        },
    }
    layers: list[Spec] = [
        {
            "name": DATA,
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
            "encoding": {
                "x": x,
                "y": y,
                **words(rows),
            },
        }
    ]
    if score:
        layers += _level(score, None)
    return Chart(
        name=slug(("samples", record.id)),
        page="record",
        title=title,
        description=(
            f"{title}: {len(rows)} runs, from {number(min(times.values()))} to "
            f"{number(max(times.values()))} minutes"
            + (f"; the score is {number(score)} minutes." if score else ".")
        ),
        spec={
            "width": "container",
            "height": PANEL,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "data": {"values": rows},
            "layer": layers,
        },
        marks=len(rows),
        note=sentences(
            ["dashed: the score, without the best and the worst run" if score else "", *failed[:5]]
        ),
        records=(record.id,),
    )
