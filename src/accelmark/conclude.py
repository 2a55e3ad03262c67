"""From raw windows to metrics and a status; and from a Job's processes to its one Record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from accelmark import stats
from accelmark.record import (
    Calls,
    Latency,
    Metrics,
    Part,
    Quantity,
    Record,
    Samples,
    Status,
    Throughput,
    Window,
)

#: A change of the step time smaller than this is no reason to wait or to doubt.
STEADY = 0.01
#: Share of the CPU time taken by other processes above which a result is not what this machine can do.
DISTURBED = 0.1
#: How a reason begins that no longer holds when the Records of several processes are combined.
ONE_PROCESS = "one process:"
#: What to do about most of what can be wrong with an interval.
LONGER = "give a longer --time-budget, or look for what disturbs with accelmark doctor"


def by_process(windows: Iterable[Window]) -> list[list[tuple[float, float]]]:
    """The (units, seconds) pairs of each process."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for window in windows:
        groups.setdefault(window.process, []).append((window.units, window.seconds))
    return [groups[process] for process in sorted(groups)]


def throughput(windows: Sequence[Window], unit: str) -> Throughput | None:
    """Throughput with interval from windows of any number of processes; `None` without windows."""
    if not windows:
        return None
    estimate = stats.throughput(by_process(windows))
    interval = None
    if estimate.low is not None and estimate.high is not None:
        interval = (estimate.low, estimate.high)
    return Throughput(
        value=estimate.value, unit=unit, ci95=interval, n=estimate.windows, processes=estimate.processes
    )


def latency(milliseconds: Sequence[float]) -> Latency | None:
    """What calls say of latency; `None` without calls."""
    if not milliseconds:
        return None
    ordered = sorted(milliseconds)
    wanted = {"p50": 50, "p90": 90, "p95": 95, "p97": 97, "p99": 99, "p99_9": 99.9}
    return Latency(
        min=ordered[0],
        mean=math.fsum(ordered) / len(ordered),
        max=ordered[-1],
        n=len(ordered),
        **{name: stats.nearest_rank(ordered, percent) for name, percent in wanted.items()},
    )


def latency_of(calls: Calls, stream: int) -> Latency | None:
    """What the calls of one stream, or of one part of a machine, say of latency."""
    return latency([ms for its, ms in zip(calls.stream, calls.ms, strict=True) if its == stream])


def stationarity(warm_up: Sequence[Window], windows: Sequence[Window], settled: bool) -> str | None:
    """Why one process's windows are not stationary, or None.

    Where warm-up was given up before the step time had settled, its windows are looked at with the measured
    ones: if all of them show no trend, what kept it from settling was noise, which the interval shows.
    The first window of warm-up is the second step, which may still be a special one.
    """
    change = stats.trend([w.seconds / w.steps for w in windows], 2 * STEADY)
    if change is None and not settled:
        change = stats.trend([w.seconds / w.steps for w in (*warm_up[1:], *windows)], 2 * STEADY)
        if change is not None:
            return f"the step time was still {_changing(change)} when the budget was spent; {LONGER}"
    if change is None:
        return None
    return f"the step time {'rose' if change > 0 else 'fell'} by {abs(change):.1%} while measuring; {LONGER}"


def _changing(change: float) -> str:
    return "rising" if change > 0 else "falling"


def spread(metric: Throughput, target: float, other_share: float | None = None) -> tuple[Status, list[str]]:
    """`ok` or `noisy` by the interval's width and by what else ran, and what a reader should know of it.

    `other_share` is the share of the CPU time that other processes took.
    """
    reasons = []
    disturbed = other_share is not None and other_share > DISTURBED
    if disturbed:
        # First, because it explains the width.
        reasons.append(f"other processes took {other_share:.0%} of the CPU time while measuring")
    if metric.ci95 is None:
        return Status.NOISY, [*reasons, "too few windows for an interval; give a longer --time-budget"]
    half = (metric.ci95[1] - metric.ci95[0]) / 2 / metric.value
    if half > target:
        reasons.append(f"the 95 % interval is ±{half:.2%}, wanted was ±{target:.2%}; {LONGER}")
    if metric.processes == 1:
        reasons.append(f"{ONE_PROCESS} differences between processes are not in the interval")
    return (Status.NOISY if disturbed or half > target else Status.OK), reasons


def judge(
    warm_up: Sequence[Window],
    windows: Sequence[Window],
    settled: bool,
    unit: str,
    target: float,
    other_share: float | None = None,
) -> tuple[Throughput, Status, list[str]]:
    """What one process's windows say: the throughput, its status, and what a reader should know of it."""
    metric = throughput(windows, unit)
    if metric is None:
        raise ValueError("a measurement without windows")
    status, reasons = spread(metric, target, other_share)
    unsteady = stationarity(warm_up, windows, settled)
    if unsteady:
        status, reasons = Status.NOT_STATIONARY, [unsteady, *reasons]
    return metric, status, reasons


def combine(records: Sequence[Record]) -> Record:
    """The one Record of a Job from the Records of its processes, in the order in which they ran.

    Windows of all are kept with their process's number. A process that failed gives the whole its status;
    what the others measured stays.
    """
    first = records[0]
    samples = Samples(
        windows=[_of(window, i) for i, record in enumerate(records) for window in record.samples.windows],
        warm_up=[_of(window, i) for i, record in enumerate(records) for window in record.samples.warm_up],
        step_ms=[ms for record in records for ms in record.samples.step_ms],
        calls=_calls(records),
        spans=[span for record in records for span in record.samples.spans],
        telemetry=[sample for record in records for sample in record.samples.telemetry],
        batch_curve=first.samples.batch_curve,
    )
    metrics = _combine_metrics([record.metrics for record in records], samples)
    failed = [record for record in records if record.status not in (Status.OK, Status.NOISY)]
    if failed:
        status = failed[0].status
        reasons = [
            f"process {i + 1} of {len(records)}: {reason}" if len(records) > 1 else reason
            for i, record in enumerate(records)
            if record.status == status
            for reason in record.reasons
            if len(records) == 1 or not reason.startswith(ONE_PROCESS)
        ]
    elif metrics.throughput is not None and first.settings is not None:
        status, reasons = spread(metrics.throughput, first.settings.target, metrics.other_cpu_share)
        others = [reason for record in records for reason in record.reasons if not _about_spread(reason)]
        reasons += dict.fromkeys(others)
    else:
        status, reasons = first.status, list(first.reasons)
    return first.replace(
        status=status,
        reasons=reasons,
        duration_s=math.fsum(record.duration_s or 0.0 for record in records),
        metrics=metrics,
        samples=samples,
        log_tail=next((record.log_tail for record in failed if record.log_tail), None),
    )


def _about_spread(reason: str) -> bool:
    return reason.startswith(("the 95 % interval", ONE_PROCESS, "too few windows", "other processes took"))


def _of(window: Window, process: int) -> Window:
    return window.model_copy(update={"process": process})


def _calls(records: Sequence[Record]) -> Calls | None:
    """The calls of all processes, numbered as they ran."""
    found = [(i, record.samples.calls) for i, record in enumerate(records) if record.samples.calls]
    if not found:
        return None
    return Calls(
        process=[i for i, calls in found for _ in calls.ms],
        stream=[stream for _, calls in found for stream in calls.stream],
        ms=[ms for _, calls in found for ms in calls.ms],
    )


def _combine_metrics(parts: Sequence[Metrics], samples: Samples) -> Metrics:
    unit = next((part.throughput.unit for part in parts if part.throughput), None)
    total = throughput(samples.windows, unit) if unit else None
    energy = _over(parts, "energy_j", math.fsum)
    units = math.fsum(window.units for window in samples.windows)
    powers = [part for part in parts if part.energy_j and part.power_w]
    seconds = math.fsum((part.energy_j or 0) / (part.power_w or 1) for part in powers)
    steps = sum(window.steps for window in samples.windows)
    last = parts[-1]
    return last.model_copy(
        update={
            "throughput": total,
            "latency_ms": latency(samples.calls.ms) if samples.calls else last.latency_ms,
            "load_s": _over(parts, "load_s", _mean),
            "parts": _parts(parts, samples.calls),
            "energy_j": energy,
            "power_w": energy / seconds if energy and seconds else None,
            "idle_power_w": _over(parts, "idle_power_w", _mean),
            "efficiency": Quantity(value=units / energy, unit=f"{unit}/W")
            if energy and unit and len(powers) == len(parts)
            else None,
            "memory_peak_gib": _over(parts, "memory_peak_gib", max),
            "host_memory_peak_gib": _over(parts, "host_memory_peak_gib", max),
            "rank_skew": _over(parts, "rank_skew", _mean),
            "padding_share": _over(parts, "padding_share", _mean),
            "other_cpu_share": _over(parts, "other_cpu_share", max),
            "first_step_s": _over(parts, "first_step_s", _mean),
            "warm_up_s": _over(parts, "warm_up_s", _mean),
            "step_s": math.fsum(window.seconds for window in samples.windows) / steps if steps else None,
            "parameters": _over(parts, "parameters", max),
            "loss_first": _over(parts, "loss_first", _mean),
            "loss_last": _over(parts, "loss_last", _mean),
        }
    )


def _parts(processes: Sequence[Metrics], calls: Calls | None) -> list[Part]:
    """Each part of a machine in parts, as the mean of its processes; its latency is of all their calls."""
    first = processes[0].parts
    if len(processes) == 1 or any(len(process.parts) != len(first) for process in processes):
        return first
    return [
        part.model_copy(
            update={
                name: Throughput(
                    value=_mean([getattr(process.parts[i], name).value for process in processes]),
                    unit=part.throughput.unit,
                    processes=len(processes),
                )
                for name in ("throughput", "alone")
            }
            | {
                "latency_ms": latency_of(calls, i) if calls else part.latency_ms,
                "power_w": _over([process.parts[i] for process in processes], "power_w", _mean),
            }
        )
        for i, part in enumerate(first)
    ]


def _over(parts: Sequence[Metrics | Part], name: str, how: Callable[[list[float]], float]) -> float | None:
    values = [getattr(part, name) for part in parts if getattr(part, name) is not None]
    return how(values) if values else None


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
