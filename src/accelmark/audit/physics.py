"""Arithmetic rates against what the board can do by its data sheet, and what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelmark.audit.arithmetic import PER_REQUEST, PER_SAMPLE
from accelmark.audit.finding import Finding, Severity
from accelmark.audit.rows import count, family, stated, throughput
from accelmark.names import facts
from accelmark.record import Record
from accelmark.text import number

#: Beyond a peak by so much, a rate is impossible. The arithmetic of a network is known to a few percent, and
#: a cool board's clock may exceed the one that its data sheet counts with.
IMPOSSIBLE = 1.05
#: A whole network does not come so near: the best matrix products of vendors' libraries reach 80 to 90 %.
IMPLAUSIBLE = 0.90
#: A share of a measured ceiling above 1 is an error in one of the two; 2 % is the noise of both.
ABOVE_CEILING = 1.02
#: Fast algorithms (Winograd's, Lavin and Gray 2016) do a 3x3 convolution with 2.25 times fewer
#: multiplications than are counted. At fp32, where multiplications are what takes time, libraries use them.
FAST_CONVOLUTION = 2.25
#: Forward, and backward for inputs and for weights: three times the arithmetic of forward alone.
TRAINING = 3
#: Rule books whose sequences are of many lengths, `sequence_length` being the longest.
VARIED_LENGTHS = ("mlperf-inference", "mlperf-training")


@dataclass(frozen=True)
class _Peak:
    dense: float
    sparse: float | None
    board: facts.Board


def above_peak(records: Sequence[Record]) -> Iterator[Finding]:
    """Throughput x arithmetic of one unit, against the board's peak at that precision.

    The peaks are a dated table, dense and sparse. A network with 2:4 sparsity is held against the sparse
    peak. Another that exceeds the dense peak but not the sparse one may be a sparse one that does not say so:
    a warning. One of convolutions at fp32 may exceed the peak by a fast algorithm: a note. Says nothing of a
    board, precision, network or sequence length that the tables do not have, nor where sequences are of many
    lengths.
    """
    for record in records:
        peak = _peak(record)
        rate = _rate(record) if peak is not None else None
        if rate is None or peak is None:
            continue
        known = facts.network(record.job.network)
        sparse_network = known is not None and known.sparse
        limit = peak.sparse if sparse_network and peak.sparse else peak.dense
        share = rate / limit
        if share <= IMPLAUSIBLE:
            continue
        precision = record.job.precision
        with_sparsity = IMPLAUSIBLE * (peak.sparse or 0) / limit
        severity: Severity
        if not sparse_network and IMPOSSIBLE < share <= with_sparsity:
            severity = "warning"
            why = "which only structured sparsity allows, and the row does not speak of it"
        elif precision == "fp32" and not (known and known.by_length) and share <= FAST_CONVOLUTION:
            severity, why = "note", "which convolutions by a fast algorithm (Winograd's) can reach"
        elif share > IMPOSSIBLE:
            severity, why = "error", "so precision, network, board or throughput is not what it says"
        else:
            severity, why = "warning", "which no whole network comes near"
        unit = "TOP/s" if str(precision).startswith("int") else "TFLOP/s"
        count_of = f"{record.job.accelerators} x " if record.job.accelerators > 1 else ""
        yield Finding(
            rule="above-peak",
            severity=severity,
            records=(record.id,),
            expected=f"less than {number(limit * IMPLAUSIBLE / 1e12, 3)} {unit} at {precision}",
            found=f"{number(rate / 1e12, 3)} {unit}",
            message=f"{record.id}: {record.job.network} at this throughput takes "
            f"{number(rate / 1e12, 3)} {unit}, {share:.0%} of the "
            f"{precision} peak of {count_of}{peak.board.name} ({peak.board.source}, "
            f"{peak.board.since:%Y-%m}), {why}",
        )


def above_ceiling(records: Sequence[Record]) -> Iterator[Finding]:
    """A share above 100 % of the machine's own measured ceiling: one of the two is measured wrongly."""
    for record in records:
        share = record.metrics.ceiling
        if share is not None and share.share > ABOVE_CEILING:
            yield Finding(
                rule="above-ceiling",
                severity="error",
                records=(record.id,),
                against=(share.reference,),
                expected="at most 100 % of the measured ceiling",
                found=f"{share.share:.1%}",
                message=f"{record.id}: the arithmetic rate is {share.share:.1%} of that of matrix "
                "products on the same machine: one of the two is measured wrongly",
            )


def _rate(record: Record) -> float | None:
    """FLOP/s, at the least that rounding allows; `None` where the arithmetic of one unit is not known."""
    unit = record.metrics.throughput.unit if record.metrics.throughput else None
    if unit not in PER_SAMPLE:
        return None
    flops = record.metrics.flops_per_sample or _known_flops(record)
    rate = throughput(record) if flops is not None else None
    if flops is None or rate is None:
        return None
    # A request may hold several samples; without a word about it, it holds one.
    batch = count(stated(record, "client_batch_size")) if unit in PER_REQUEST else None
    return rate.low * flops * (batch or 1)


def _known_flops(record: Record) -> float | None:
    """Arithmetic of one unit of the batch axis in this scenario, by the table of networks."""
    known = facts.network(record.job.network)
    if known is None or record.job.size != "full":
        return None
    if known.by_length and str(stated(record, "rules")).startswith(VARIED_LENGTHS):
        return None
    gflop = known.forward_gflop(record.job.sequence_length)
    if gflop is None:
        return None
    return gflop * 1e9 * (TRAINING if family(record.job.scenario) == "training" else 1)


def _peak(record: Record) -> _Peak | None:
    """FLOP/s of all that computed; of an unknown partition, of the whole board."""
    board = facts.board(record.system.accelerator.name)
    accelerators = count(record.job.accelerators)
    instances = count(stated(record, "instances") or 1)
    if board is None or record.job.precision is None or accelerators is None or instances is None:
        return None
    dense = board.dense.get(record.job.precision)
    if dense is None:
        return None
    sparse = board.sparse.get(record.job.precision)
    share = min(1.0, board.share(record.job.partition) * instances) * accelerators * 1e12
    return _Peak(dense * share, sparse * share if sparse is not None else None, board)
