"""Figures of one Record that must agree with each other: throughput, latency and what was in flight.

The law is Little's (Operations Research 9, 1961): what is in flight = throughput x mean latency, whatever the
distributions. It holds for means only; a Record that gives percentiles alone is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelmark.audit.finding import Finding
from accelmark.audit.rows import PACED, count, mean_latency, scheduled, span, stated
from accelmark.record import Record
from accelmark.text import number

#: In flight above what there can be. Seven slices of one board, whose rates are summed and latencies
#: averaged, reach 1 % in sound tables; throughput and latency taken from two runs differ by as much.
TOO_MUCH = 0.02
#: In flight below it: between two requests a client or a batch's owner may pause. Sound tables show
#: up to 5 %.
TOO_LITTLE = 0.10
#: A paced stream can gain nothing on real time; 1 % is for clocks and rounding in the client.
PACED_TOO_MUCH = 0.01
#: What the end of each stream costs (its last words come after its last audio): up to 5 % in sound tables.
PACED_TOO_LITTLE = 0.10

#: Units of which a batch or a request is made. Of tokens, one request holds a number that is not known.
PER_SAMPLE = frozenset({"images/s", "sequences/s", "samples/s", "queries/s", "inferences/s", "requests/s"})
#: Those that count requests, however many samples one has.
PER_REQUEST = frozenset({"queries/s", "requests/s"})


def batch_over_latency(records: Sequence[Record]) -> Iterator[Finding]:
    """Inference at a batch size: instances x batch / mean latency is the throughput.

    Assumes one batch in flight in each instance of each accelerator (in each of `streams`, where stated).
    Says nothing without batch, mean latency and a unit that the batch counts.
    """
    for record in records:
        if record.job.scenario != "inference":
            continue
        batch = count(record.job.batch_size)
        instances = count(stated(record, "instances") or 1)
        streams = count(stated(record, "streams") or 1)
        accelerators = count(record.job.accelerators)
        if batch is None or instances is None or streams is None or accelerators is None:
            continue
        workers = instances * streams * accelerators
        what = f"batch {batch}" if workers == 1 else f"{workers} x batch {batch}"
        yield from _little("batch-over-latency", record, batch * workers, what)


def littles_law(records: Sequence[Record]) -> Iterator[Finding]:
    """A service under N clients that each wait for their answer: N requests / mean latency is the throughput.

    N is `concurrent_requests` of a model server, `streams` of a language service, 1 of LoadGen's single
    stream. Says nothing of loads that arrive by a schedule, nor of pauses between requests shorter than 10 %.
    """
    for record in records:
        if scheduled(record):
            continue
        match record.job.scenario:
            case "serving":
                clients = count(stated(record, "concurrent_requests"))
            case "language-service":
                clients = count(stated(record, "streams"))
            case "single-stream":
                clients = 1
            case _:
                continue
        unit = record.metrics.throughput.unit if record.metrics.throughput else None
        batch = 1 if unit in PER_REQUEST else count(stated(record, "client_batch_size") or 1)
        if clients is not None and batch is not None:
            what = f"{clients} requests" if batch == 1 else f"{clients} requests of {batch}"
            yield from _little("littles-law", record, clients * batch, what)


def _little(rule: str, record: Record, in_flight: int, what: str) -> Iterator[Finding]:
    metric, latency = record.metrics.throughput, mean_latency(record)
    if metric is None or metric.unit not in PER_SAMPLE or latency is None:
        return
    rate, unit = span(record, metric.value), metric.unit
    least = rate.low * latency.low / 1000 / in_flight
    most = rate.high * latency.high / 1000 / in_flight
    if least <= 1 + TOO_MUCH and most >= 1 - TOO_LITTLE:
        return
    expected = in_flight * 1000 / latency.value
    much = least > 1
    yield Finding(
        rule=rule,
        severity="error" if much else "warning",
        records=(record.id,),
        expected=f"{number(expected)} {unit}",
        found=f"{rate.value:,.10g} {unit}",
        message=f"{record.id}: {what} in {latency.value:g} ms would be {number(expected)} {unit}, not "
        f"{rate.value:,.10g} ({rate.value / expected - 1:+.1%}); "
        + (
            "throughput, latency or the number in flight is wrong"
            if much
            else "one of them is wrong, or the accelerator waited in between"
        ),
    )


def paced_streams(records: Sequence[Record]) -> Iterator[Finding]:
    """N streams of live audio bring N seconds of audio a second, so a service that keeps up has RTFX N.

    It keeps up if the answer to a chunk is there before the next chunk is. If latency is longer, or is not
    known, a small RTFX may mean an overload, which is a warning: audio is piling up, and the latency printed
    is that of a moment. Says nothing where the load is not said to be paced.
    """
    for record in records:
        metric, streams = record.metrics.throughput, count(stated(record, "streams"))
        if stated(record, "load") != PACED or streams is None or metric is None or metric.unit != "RTFX":
            continue
        rate = span(record, metric.value)
        much = rate.low > streams * (1 + PACED_TOO_MUCH)
        if not much and rate.high >= streams * (1 - PACED_TOO_LITTLE):
            continue
        keeps_up = _keeps_up(record)
        if much:
            why = "more audio than was sent"
        elif keeps_up:
            why = "yet each chunk is answered before the next one comes, so nothing is left behind"
        else:
            why = "so the service does not keep up, or the figure is wrong"
        yield Finding(
            rule="paced-streams",
            severity="error" if much or keeps_up else "warning",
            records=(record.id,),
            expected=f"RTFX {number(streams * (1 - PACED_TOO_LITTLE))} to {streams}",
            found=f"RTFX {rate.value:g}",
            message=f"{record.id}: {streams} streams paced as live audio show RTFX {rate.value:g}, {why}",
        )


def _keeps_up(record: Record) -> bool:
    latency = mean_latency(record)
    chunk = stated(record, "chunk_ms")
    if latency is None or isinstance(chunk, (bool, str)) or chunk is None:
        return False
    return latency.high < chunk
