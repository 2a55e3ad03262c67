"""Records beside others on the terminal: the pairs, what they rest on, and why others are none."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from accelmark.cli.sources import beside as read_beside
from accelmark.cli.sources import read_own
from accelmark.compare.conditions import check_allowed
from accelmark.compare.pairs import Pair, Pairing, Ratio, Verdict, guard, pair_up
from accelmark.compare.prices import Prices, read_prices
from accelmark.errors import EXIT_INCONCLUSIVE, EXIT_MEASUREMENT_FAILED, UsageError
from accelmark.record import Record
from accelmark.text import (
    RATIO_BAR,
    bar_extent,
    bar_scale,
    draws_bars,
    number,
    print_notes,
    print_table,
    quantity,
    ratio_bar,
    safe,
    say,
)

COLUMNS = ("Record", "figure", "with", "accelerator", "figure", "ratio of", "ratio", "95 % interval", "note")
#: What a reader calls a ratio's metric.
METRICS = {
    "throughput": "throughput",
    "time_to_train_min": "time to train",
    "efficiency": "per watt",
    "throughput_per_price": "per price",
}


def print_pairing(
    paths: Sequence[Path],
    beside: Sequence[str],
    allow: Sequence[str],
    prices_file: Path | None,
    fail_below: float | None,
    as_json: bool,
) -> None:
    """Pair the Records in these paths with the others, print the pairs, and leave with the guard's code."""
    if not paths:
        raise UsageError("nothing to compare: give a folder of Records before --with.")
    prices = read_prices(prices_file) if prices_file else None
    records = read_own(paths)
    others = [record for name in beside for record in read_beside(name)]
    check_allowed(allow, [*records, *others])
    pairing = pair_up(records, others, allow, prices)
    verdicts = [] if fail_below is None else guard(pairing, fail_below)
    if as_json:
        sys.stdout.write(json.dumps(_as_dict(pairing, prices, verdicts), indent=1) + "\n")
    else:
        print_pairs(pairing, prices)
    if fail_below is None:
        return
    if not as_json:
        _print_verdicts(verdicts, fail_below)
    outcomes = {verdict.outcome for verdict in verdicts}
    if "below" in outcomes:
        raise typer.Exit(EXIT_MEASUREMENT_FAILED)
    if "inconclusive" in outcomes or not verdicts:
        raise typer.Exit(EXIT_INCONCLUSIVE)


def _as_dict(pairing: Pairing, prices: Prices | None, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    summary = pairing.summary
    repeats = [pair for pair in pairing.pairs if pair.repeats]
    return {
        "summary": {
            "pairs": summary.pairs,
            "geometric_mean": summary.geometric_mean,
            "ci95": summary.ci95,
            "wins": summary.wins,
            "losses": summary.losses,
            "ties": summary.ties,
            "undecided": summary.undecided,
            "repeats": len(repeats),
            "repeats_that_agree": sum(pair.agrees is True for pair in repeats),
        },
        "prices": None if prices is None else str(prices),
        "pairs": [_pair(pair) for pair in pairing.pairs],
        "nothing_to_compare_with": [record.id for record in pairing.alone],
        "not_usable": {record.id: record.status.value for record in pairing.unusable},
        "verdicts": [
            {
                "record": verdict.pair.record.id,
                "with": verdict.pair.other.id,
                "outcome": verdict.outcome,
                "why": verdict.why,
            }
            for verdict in verdicts
        ],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    conditions = pair.conditions
    return {
        "record": pair.record.id,
        "with": pair.other.id,
        "comparable": pair.comparable,
        "not_comparable": _reasons(pair),
        "ratios": {
            ratio.metric: {"ratio": ratio.value, "ci95": ratio.ci95, "spread_of": ratio.spread_of}
            for ratio in pair.ratios
        },
        "allowed": [str(difference) for difference in conditions.lifted],
        "differs": [str(difference) for difference in conditions.means],
        "not_stated": list(conditions.not_stated),
        "repeats": pair.repeats,
        "agrees_as_printed": pair.agrees,
    }


def _reasons(pair: Pair) -> list[str]:
    reasons = [str(difference) for difference in pair.conditions.blocking]
    if not pair.comparable:
        reasons += [str(difference) for _, difference in pair.left_out]
        if not reasons:
            reasons.append("they have no metric in common")
    return reasons


def _figure(record: Record) -> str:
    metrics = record.metrics
    if metrics.time_to_train_min is not None:
        return f"{number(metrics.time_to_train_min)} min"
    if metrics.throughput is None:
        return "-"
    return " ".join(quantity(metrics.throughput.value, metrics.throughput.ci95, metrics.throughput.unit))


def _times(value: float) -> str:
    """Three decimals; three significant digits below 0.1."""
    return f"{value:,.3f}" if value >= 0.1 else number(value, 3)


def _ratio(ratio: Ratio) -> tuple[str, str]:
    interval = f"{_times(ratio.ci95[0])} to {_times(ratio.ci95[1])}" if ratio.ci95 else "-"
    return f"{_times(ratio.value)}x", interval


def print_pairs(pairing: Pairing, prices: Prices | None = None) -> None:
    """The tables of pairs, the summary, and what is not comparable and why."""
    comparable = [pair for pair in pairing.pairs if pair.comparable]
    others = [pair for pair in pairing.pairs if not pair.comparable]
    if comparable:
        ratios = [ratio for pair in comparable for ratio in pair.ratios]
        rows = [
            [
                pair.record.job.label(),
                _figure(pair.record) if place == 0 else "",
                pair.other.id,
                pair.other.system.accelerator.name,
                _figure(pair.other) if place == 0 else "",
                METRICS[ratio.metric],
                *_ratio(ratio),
                _remark(pair) if place == 0 else "",
            ]
            for pair in comparable
            for place, ratio in enumerate(pair.ratios)
        ]
        if sys.stdout.isatty():
            _print_on_terminal(ratios, rows)
        else:
            print_table(COLUMNS, rows, right={1, 4, 6})
        typer.echo("")
    _print_summary(pairing)
    if prices is not None:
        say(safe(f"per price: throughput per {prices}"))
    if others:
        typer.echo("\nNot comparable, with the nearest:\n")
        rows = [[pair.record.job.label(), pair.other.id, ", ".join(_reasons(pair))] for pair in others]
        print_table(["Record", "with", "because"], rows)
    for record in pairing.alone:
        say(
            safe(
                f"note: {record.id}: nothing of {record.job.network}, {record.job.scenario}, to compare with"
            )
        )
    for record in pairing.unusable:
        say(safe(f"note: {record.id} is left out: {record.status.value}"))


def _print_on_terminal(ratios: Sequence[Ratio], rows: Sequence[Sequence[str]]) -> None:
    """The pairs fitted to the width: a bar a ratio, remarks below, once each."""
    notes = list(dict.fromkeys(filter(None, (cells[-1] for cells in rows))))
    columns = [*COLUMNS[:4], "its figure", *COLUMNS[5:8], RATIO_BAR, "note"]
    extent = bar_extent([ratio.value for ratio in ratios])
    bars = draws_bars()
    fitted = [
        [
            *cells[:-1],
            ratio_bar(ratio.value, ratio.ci95, extent) if bars else "",
            str(notes.index(cells[-1]) + 1) if cells[-1] else "",
        ]
        for ratio, cells in zip(ratios, rows, strict=True)
    ]
    # The least important first: accelerator, ratio of, its figure, figure, bar, note.
    shown = print_table(columns, fitted, right={1, 4, 6, 7}, drop=(3, 5, 4, 1, 8, 9))
    if bars and 8 in shown:
        say(bar_scale(extent, any(ratio.ci95 for ratio in ratios)))
    if notes:
        typer.echo("")
    print_notes(notes)


def _remark(pair: Pair) -> str:
    conditions = pair.conditions
    parts = []
    if pair.agrees is not None:
        parts.append("the same thing: agrees as printed" if pair.agrees else "the same thing: DIFFERS")
    if conditions.lifted:
        parts.append(f"allowed: {', '.join(map(str, conditions.lifted))}")
    parts += [f"{METRICS[metric]} not comparable: {difference}" for metric, difference in pair.left_out]
    if conditions.means:
        parts.append(", ".join(map(str, conditions.means)))
    if conditions.not_stated:
        parts.append(f"not stated by one side: {', '.join(conditions.not_stated)}")
    return "; ".join(parts)


def _print_summary(pairing: Pairing) -> None:
    summary = pairing.summary
    if summary.geometric_mean is None:
        say("no pair is comparable")
        return
    interval = (
        f" (95 % interval {_times(summary.ci95[0])} to {_times(summary.ci95[1])})" if summary.ci95 else ""
    )
    say(
        f"{summary.pairs} comparable pairs, geometric mean {_times(summary.geometric_mean)}x{interval}: "
        f"{summary.wins} faster, {summary.losses} slower, {summary.ties} within the interval, "
        f"{summary.undecided} without an interval"
    )
    repeats = [pair for pair in pairing.pairs if pair.repeats]
    if repeats:
        agree = sum(pair.agrees is True for pair in repeats)
        say(f"{len(repeats)} repeat the other side's figure, {agree} of them to the printed digit")


def _print_verdicts(verdicts: Sequence[Verdict], bound: float) -> None:
    typer.echo("")
    for verdict in verdicts:
        if verdict.outcome != "above":
            pair = verdict.pair
            say(safe(f"{verdict.outcome} {bound:g}: {pair.record.id} with {pair.other.id}: {verdict.why}"))
    if not verdicts:
        say(f"inconclusive: no pair is comparable, so nothing can be said about {bound:g}")
    elif all(verdict.outcome == "above" for verdict in verdicts):
        say(f"no ratio lies below {bound:g}")
