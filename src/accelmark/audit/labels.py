"""Labels that do not fit the rest: a unit, a precision, a quality target, a network by its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from accelmark.audit.finding import Finding
from accelmark.audit.rows import (
    Span,
    family,
    grouped,
    ids,
    listed,
    mean_latency,
    parameters,
    scheduled,
    stated,
    throughput,
)
from accelmark.names import facts
from accelmark.published.rounding import printed_half_unit
from accelmark.record import Record

#: An odd unit is that of one row in five at most, with three others at least that agree.
ODD_SHARE = 0.2
LEAST_ALIKE = 3
#: So many of the rows that agree are named.
SHOWN = 20
#: A larger network has so many times the parameters; below that, how it is built decides.
LARGER = 1.5
#: And is faster by so much: less may be noise, or a small batch that does not fill the accelerator.
FASTER = 0.10
#: What a target that is not printed may differ from the rule book's, relative: it is often given with 4
#: digits.
TARGET = 1e-4


def odd_unit(records: Sequence[Record]) -> Iterator[Finding]:
    """A unit unlike that of the same network's other rows of this framework and kind of scenario.

    Frameworks' examples may count differently (images or samples), so that each is held against its own.
    Says nothing where fewer than four fifths agree.
    """

    def key(record: Record) -> tuple[object, ...] | None:
        job = record.job
        if record.metrics.throughput is None or job.scenario == "ceiling":
            return None
        return (job.network, job.framework, family(job.scenario), str(job.parameters.get("task")))

    for group in grouped(records, key).values():
        by_unit = grouped(group, lambda r: r.metrics.throughput.unit if r.metrics.throughput else None)
        usual, alike = max(by_unit.items(), key=lambda item: len(item[1]))
        odd = [record for unit, rows in by_unit.items() if unit != usual for record in rows]
        if not odd or len(alike) < LEAST_ALIKE or len(odd) > ODD_SHARE * len(group):
            continue
        names = ids(odd)
        units = " and ".join(sorted(unit for unit in by_unit if unit != usual))
        yield Finding(
            rule="odd-unit",
            severity="warning",
            records=names,
            against=ids(alike)[:SHOWN],
            expected=usual,
            found=units,
            message=f"{listed(names)} {'counts' if len(names) == 1 else 'count'} {group[0].job.network} in "
            f"{units}, its {len(alike)} other rows in {usual}",
        )


def changing_precision(records: Sequence[Record]) -> Iterator[Finding]:
    """A series over batch sizes, in one printed table, whose precision changes on the way.

    Where no batch size is there at two precisions, nobody can tell what the precision does, and a label that
    was not changed with its row is the likely reason. Says nothing of Records without a table
    (`origin.section`).
    """

    def key(record: Record) -> tuple[object, ...] | None:
        job, origin = record.job, record.origin
        if origin is None or origin.section is None or job.precision is None or job.batch_size is None:
            return None
        return (
            origin.page,
            origin.file,
            origin.section,
            record.system.accelerator.name,
            job.network,
            job.size,
            job.scenario,
            job.framework,
            job.engine,
            job.accelerators,
            job.partition,
            parameters(record),
        )

    for group in grouped(records, key).values():
        if len({r.job.precision for r in group}) < 2:
            continue
        if max(Counter(r.job.batch_size for r in group).values()) > 1:
            continue
        ordered = sorted(group, key=lambda r: r.job.batch_size or 0)
        words = ", ".join(f"batch {r.job.batch_size} {r.job.precision}" for r in ordered)
        names = ids(group)
        yield Finding(
            rule="changing-precision",
            severity="warning",
            records=names,
            expected="one precision in a series over batch sizes",
            found=words,
            message=f"{listed(names)}: {group[0].job.network} on {group[0].system.accelerator.name} changes "
            f"its precision with the batch ({words}); one of the labels is probably wrong",
        )


def larger_faster(records: Sequence[Record]) -> Iterator[Finding]:
    """A network that is faster than a much smaller one of its family, all else equal.

    Much smaller: two thirds of the parameters or fewer. Within a family (networks built alike) more
    parameters mean more work for each unit. Equal: board, server, scenario and its parameters, precision,
    batch, accelerators, data. Latencies are compared, and throughputs that no schedule sets. Where one
    network has several rows, its fastest is held against the other's slowest. Says nothing of networks or
    sizes without known parameters.
    """

    def key(record: Record) -> tuple[object, ...] | None:
        job, metric = record.job, record.metrics.throughput
        known = facts.network(job.network)
        if known is None or known.family is None or known.parameters is None or job.size != "full":
            return None
        return (
            known.family,
            record.system.accelerator.name,
            record.system.server,
            job.scenario,
            job.framework,
            job.engine,
            job.precision,
            job.batch_size,
            job.accelerators,
            job.nodes,
            job.partition,
            job.data,
            job.sequence_length,
            parameters(record),
            metric.unit if metric else None,
            record.conditions.get("power_run"),
        )

    for group in grouped(records, key).values():
        networks = sorted(grouped(group, lambda r: (_parameters(r), r.job.network)).items())
        for place, ((parameters_small, _), small) in enumerate(networks):
            for (parameters_large, _), large in networks[place + 1 :]:
                if parameters_large >= LARGER * parameters_small:
                    yield from _compare_sizes(small, large)


def _parameters(record: Record) -> int:
    known = facts.network(record.job.network)
    return known.parameters or 0 if known else 0


def _compare_sizes(small: Sequence[Record], large: Sequence[Record]) -> Iterator[Finding]:
    slow, fast = _spans(small, mean_latency), _spans(large, mean_latency)
    if slow and fast and min(s.low for s in slow) > max(s.high for s in fast) * (1 + FASTER):
        least, most = min(s.value for s in slow), max(s.value for s in fast)
        yield _inverted(
            small, large, f"more than {FASTER:.0%} below {most:g} ms", f"{least:g} ms", least / most
        )
        return
    if any(map(scheduled, (*small, *large))):
        return
    slow, fast = _spans(small, throughput), _spans(large, throughput)
    if slow and fast and min(s.low for s in fast) > max(s.high for s in slow) * (1 + FASTER):
        most, least = max(s.value for s in slow), min(s.value for s in fast)
        unit = small[0].metrics.throughput.unit if small[0].metrics.throughput else ""
        yield _inverted(small, large, f"more than {least:g} {unit}", f"{most:g} {unit}", least / most)


def _spans(rows: Sequence[Record], of: Callable[[Record], Span | None]) -> list[Span]:
    return [found for found in map(of, rows) if found is not None]


def _inverted(
    small: Sequence[Record], large: Sequence[Record], expected: str, found: str, times: float
) -> Finding:
    names, against = ids(small), ids(large)
    smaller, larger = small[0].job.network, large[0].job.network
    share = _parameters(small[0]) / _parameters(large[0])
    return Finding(
        rule="larger-faster",
        severity="warning",
        records=names,
        against=against,
        expected=expected,
        found=found,
        message=f"{larger} ({listed(against)}) is {times:.2f} times as fast as {smaller} ({listed(names)}), "
        f"which has {share:.0%} of its parameters, under the same conditions",
    )


def unknown_target(records: Sequence[Record]) -> Iterator[Finding]:
    """A quality target that is neither the rule book's reference nor one of the shares of it that it allows.

    Says nothing of rule books, networks and metrics that the table does not have.
    """
    doubted: dict[tuple[str, str, str, float, facts.Target], list[Record]] = {}
    for record in records:
        rules = stated(record, "rules")
        for quality in record.metrics.quality:
            if not isinstance(rules, str) or quality.target is None:
                continue
            known = facts.target(rules, record.job.network, quality.metric)
            if known is None:
                continue
            slack = max(printed_half_unit(record, quality.target), TARGET * known.reference)
            if all(abs(quality.target - value) > slack * 1.001 for value in (known.reference, *known.bounds)):
                doubt = (rules, record.job.network, quality.metric, quality.target, known)
                doubted.setdefault(doubt, []).append(record)
    for (rules, network, metric, target, known), rows in doubted.items():
        bounds = " or ".join(f"{value:.5g}" for value in (known.reference, *known.bounds))
        names = ids(rows)
        yield Finding(
            rule="unknown-target",
            severity="warning",
            records=names,
            expected=f"{metric} {bounds}",
            found=f"{target:g}",
            message=f"{listed(names)}: the target {target:g} ({metric}) of {network} is none of {rules}, "
            f"which asks for {bounds}",
        )
