"""Latency of services over their load, with the bound beyond which they are too slow."""

from __future__ import annotations

from collections.abc import Iterator

from accelmark.record import Record
from accelmark.report.charts.chart import Chart
from accelmark.report.charts.latency import latency_charts
from accelmark.report.charts.lines import Axes, Plan, line_chart
from accelmark.report.charts.material import Material, Point, by, cut, odd_size, positive, same_work, work
from accelmark.text import number

_STREAMS = Axes("Streams at the same time", "", log_x=True)
_REQUESTS = Axes("Requests at the same time", "", log_x=True)
#: What the chart's title, axis or reference line says already.
_SAID = ("size", "task", "streams", "mode", "chunk_ms", "latency_bound_ms", "sequence", "concurrent_requests")


def load_charts(material: Material) -> Iterator[Chart | None]:
    """Speech and language services over streams, and model servers over concurrent requests."""
    for found in by(material.of("speech-recognition"), same_work, _mode, _chunk):
        yield from latency_charts(found, _streams, _recognition(found[0]), material)
    for found in by(material.of("language-service"), same_work, _bound, lambda r: r.job.sequence_length):
        yield from latency_charts(found, _streams, _language(found[0]), material)
    for found in by(material.of("serving"), same_work, _bound):
        yield from latency_charts(found, _requests, _serving(found[0]), material)
    for found in by(material.of("speech-synthesis"), same_work):
        points = [
            Point(record, where, first_audio * 1000)
            for record in found
            if (first_audio := record.metrics.time_to_first_audio_s) and (where := _streams(record))
        ]
        yield line_chart(points, _synthesis(found[0]), material)


def _streams(record: Record) -> float | None:
    return positive(record.job.parameters.get("streams"))


def _requests(record: Record) -> float | None:
    return positive(record.job.parameters.get("concurrent_requests"))


def _chunk(record: Record) -> float | None:
    return positive(record.job.parameters.get("chunk_ms"))


def _bound(record: Record) -> float | None:
    return positive(record.job.parameters.get("latency_bound_ms"))


def _mode(record: Record) -> str:
    return cut(record.job.parameters.get("mode", ""), 40)


def _reference(bound: float | None, words: str) -> tuple[tuple[tuple[float, float], ...], str]:
    return (((0.0, bound),), f"{number(bound, 6).rstrip('0').rstrip('.')} ms: {words}") if bound else ((), "")


def _recognition(first: Record) -> Plan:
    chunk = _chunk(first)
    reference, words = _reference(chunk, "above, audio arrives faster than its text leaves")
    pieces = f", {chunk:g} ms at a time" if chunk else ""
    return Plan(
        family="latency-over-streams",
        page="speech",
        title=f"{work(first)}: latency of speech recognition over load",
        subtitle=f"{_mode(first)}{pieces}".strip(", "),
        what="",
        axes=_STREAMS,
        without=_SAID,
        identity=(odd_size(first), _mode(first), f"{chunk:g}-ms" if chunk else None),
        reference=reference,
        reference_label=words,
    )


def _language(first: Record) -> Plan:
    task, length = first.job.parameters.get("task"), first.job.sequence_length
    reference, words = _reference(_bound(first), "the bound")
    return Plan(
        family="latency-over-streams",
        page="speech",
        title=f"{work(first)}: latency over load",
        subtitle=f"sequences of {length}" if length else "",
        what="",
        axes=_STREAMS,
        without=_SAID,
        identity=(odd_size(first), str(task) if task else None, str(length) if length else None),
        reference=reference,
        reference_label=words,
    )


def _serving(first: Record) -> Plan:
    task = first.job.parameters.get("task")
    reference, words = _reference(_bound(first), "the bound")
    return Plan(
        family="latency-over-requests",
        page="serving",
        title=f"{work(first)}: latency of a model server over load",
        what="",
        axes=_REQUESTS,
        without=_SAID,
        identity=(odd_size(first), str(task) if task else None),
        reference=reference,
        reference_label=words,
    )


def _synthesis(first: Record) -> Plan:
    return Plan(
        family="first-audio-over-streams",
        page="speech",
        title=f"{work(first)}: time until the first audio, over load",
        what="The time to first audio in ms",
        axes=Axes(_STREAMS.x, "Time to first audio (ms)", log_x=True),
        without=_SAID,
        identity=(odd_size(first),),
    )
