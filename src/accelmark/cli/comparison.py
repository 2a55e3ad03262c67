"""A comparison on the terminal: as tables for people, as JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from accelmark import published as published_sets
from accelmark.cli.sources import beside, read_own
from accelmark.compare.conditions import check_allowed
from accelmark.compare.study import MEANS, STUDY, Comparison, Options, Ratio, Row, system_name
from accelmark.compare.study import compare as compare_records
from accelmark.errors import UsageError, unknown
from accelmark.record import Record
from accelmark.text import (
    RATIO_BAR,
    bar,
    bar_extent,
    bar_scale,
    draws_bars,
    number,
    print_table,
    ratio_bar,
    safe,
    say,
    value_and_interval,
)


@dataclass(frozen=True)
class Wanted:
    """What the options of `compare` say about averages over groups of networks."""

    published: str | None
    beside: list[str]
    normalize_to: str | None
    group: list[str]
    mean: str | None
    allow: list[str]


def print_comparison(paths: list[Path], wanted: Wanted, as_json: bool) -> None:
    """Compare the Records in these paths, and the published ones, as the options say; print the result."""
    if not paths and not wanted.published and not wanted.beside:
        raise UsageError(
            "nothing to compare: give a folder of Records, or --published lambda-2021-08 for what is carried."
        )
    records, reference, groups, numerators, options = _gather(paths, wanted)
    if wanted.group:
        groups = _parse_groups(wanted.group, records)
    if wanted.normalize_to:
        reference, numerators = wanted.normalize_to, None
    comparison = compare_records(records, reference, groups, numerators, options=options)
    if not comparison.ratios:
        raise UsageError(safe(f"nothing to compare: {'; '.join(comparison.notes) or 'no common network'}."))
    if as_json:
        sys.stdout.write(
            json.dumps([_as_dict(ratio, comparison) for ratio in comparison.ratios], indent=1) + "\n"
        )
    else:
        _print(comparison)


def _gather(
    paths: list[Path], wanted: Wanted
) -> tuple[list[Record], str | None, dict[str, tuple[str, ...]] | None, list[str] | None, Options]:
    """The Records to compare, and what a published study says about how: reference, groups, numerators."""
    records: list[Record] = []
    reference, groups, numerators = None, None, None
    options = Options()
    if wanted.published:
        study = published_sets.entry(wanted.published).study
        if study is None:
            raise UsageError(
                f"{wanted.published} draws no averages that could be repeated; pair Records with its rows by "
                f"--with {wanted.published}."
            )
        records += published_sets.figures(wanted.published)
        reference, groups, numerators = study.reference, dict(study.groups), list(study.numerators)
        options = STUDY
    for name in wanted.beside:
        records += beside(name)
    if paths:
        own = read_own(paths)
        records += own
        if numerators is not None:
            names = [system_name(record) for record in own]
            base = str(reference).rpartition(":")[0]
            numerators = list(dict.fromkeys([*numerators, *(name for name in names if name != base)]))
    check_allowed(wanted.allow, records)
    if wanted.mean not in (None, *MEANS):
        raise unknown("mean", str(wanted.mean), MEANS)
    mean = next((name for name in MEANS if name == wanted.mean), options.mean)
    allow = tuple(dict.fromkeys([*options.allow, *wanted.allow]))
    return records, reference, groups, numerators, Options(mean, allow)


def _parse_groups(spelled: list[str], records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """`NAME=net1,net2` into groups; every network must be in the Records."""
    sizes: dict[str, set[str]] = {}
    for record in records:
        sizes.setdefault(record.job.network, set()).add(record.job.size)
    groups: dict[str, tuple[str, ...]] = {}
    for text in spelled:
        name, _, rest = text.partition("=")
        members = tuple(member.strip() for member in rest.split(","))
        if not name.strip() or not all(members):
            raise UsageError(f"--group {safe(text)!r} is not understood; say NAME=NETWORK,NETWORK.")
        for member in members:
            network, at, size = member.partition("@")
            if network not in sizes:
                raise unknown("network", network, map(safe, sizes))
            if at and size not in sizes[network]:
                raise unknown(f"size of {safe(network)}", size, map(safe, sizes[network]))
        if name.strip() in groups:
            raise UsageError(
                f"--group names {safe(name.strip())!r} twice; give each group a name of its own."
            )
        groups[name.strip()] = members
    return groups


def _round(value: float | None) -> float | None:
    """Four decimals, or four significant digits where that is more: a small figure must not become 0."""
    if value is None:
        return None
    return round(value, max(4, 3 - math.floor(math.log10(value))))


def _as_dict(ratio: Ratio, comparison: Comparison) -> dict[str, Any]:
    numerator, denominator = ratio.numerator, ratio.denominator
    precisions = [numerator.exact, *([denominator.exact] if denominator else [])]
    return {
        "group": numerator.group,
        "accelerators": numerator.accelerators,
        "precision": numerator.precision,
        "precisions": list(dict.fromkeys(precisions)),
        "numerator": numerator.system,
        "denominator": ratio.denominator_system,
        "ratio": _round(ratio.value),
        "ci95": [_round(bound) for bound in ratio.ci95] if ratio.ci95 else None,
        "reference": str(comparison.reference),
        "mean": comparison.options.mean,
        "allowed": list(comparison.options.allow),
        "normalised": {
            "numerator": _round(numerator.average),
            "denominator": _round(denominator.average) if denominator else None,
        },
        "networks": _networks(numerator, denominator),
        "missing": list(ratio.missing),
        "notes": [*comparison.notes, *ratio.notes],
    }


def _networks(numerator: Row, denominator: Row | None) -> list[dict[str, Any]]:
    """Each network's normalised throughput on both sides, with the Records it is from."""
    networks: dict[tuple[str, str], dict[str, Any]] = {}
    for side, row in (("numerator", numerator), ("denominator", denominator)):
        for value in row.values if row else ():
            entry = networks.setdefault(
                (value.cell.network, value.cell.size),
                {
                    "network": value.cell.network,
                    "size": value.cell.size,
                    "numerator": None,
                    "denominator": None,
                    "records": {},
                },
            )
            entry[side] = _round(value.value)
            entry["records"][side] = value.record.id
    return list(networks.values())


def _show(value: float | None) -> str:
    """Two decimals, as studies print them; two significant digits below 0.1."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.1 else number(value, 2)


def _print(comparison: Comparison) -> None:
    ratios = comparison.ratios
    reference = comparison.reference
    say(
        safe(f"Throughput over that of one {reference.system} at {reference.precision}, averaged over ")
        + f"each group of networks ({comparison.options.mean} mean);"
    )
    say(
        safe(f"ratio: the system's average over that of {reference.system} at the same accelerators ")
        + "and precision."
    )
    typer.echo("")
    _print_ratios(ratios)
    typer.echo("\nEach network:\n")
    _print_networks(comparison)
    remarks = [
        f"no ratio for {ratio.numerator.group}, {ratio.numerator.accelerators}x {ratio.numerator.system} "
        f"{ratio.numerator.precision}: {reason}"
        for ratio in ratios
        for reason in ratio.missing
    ]
    if comparison.options.allow:
        remarks.append(f"allowed to differ: {', '.join(comparison.options.allow)}")
    remarks += [*comparison.notes, *(note for ratio in ratios for note in ratio.notes)]
    if remarks:
        typer.echo("")
    for remark in dict.fromkeys(remarks):
        say(safe(f"note: {remark}"))


def _print_ratios(ratios: Sequence[Ratio]) -> None:
    columns = ["group", "system", "accelerators", "precision", "normalised", "reference", "ratio"]
    intervals = any(ratio.ci95 for ratio in ratios)
    if intervals:
        columns.append("95 % interval")
    bars = draws_bars()
    if bars:
        columns.append(RATIO_BAR)
    extent = bar_extent(ratio.value for ratio in ratios if ratio.value is not None)
    rows = []
    for ratio in ratios:
        row = ratio.numerator
        cells = [row.group, row.system, str(row.accelerators), row.precision, _show(row.average)]
        cells.append(_show(ratio.denominator.average if ratio.denominator else None))
        cells.append("-" if ratio.value is None else f"{_show(ratio.value)}x")
        if intervals:
            cells.append(f"{_show(ratio.ci95[0])} to {_show(ratio.ci95[1])}" if ratio.ci95 else "-")
        if bars:
            cells.append("" if ratio.value is None else ratio_bar(ratio.value, ratio.ci95, extent))
        rows.append(cells)
    drop = [columns.index(name) for name in ("reference", "normalised", RATIO_BAR) if name in columns]
    shown = print_table(columns, rows, right={2, 4, 5, 6}, drop=drop)
    if bars and columns.index(RATIO_BAR) in shown:
        say(bar_scale(extent, intervals))


def _print_networks(comparison: Comparison) -> None:
    columns = ["network", "system", "accelerators", "precision", "batch", "throughput", "unit", "normalised"]
    rows = _network_rows(comparison)
    if draws_bars():
        columns.append("of largest")
        largest: dict[str, float] = {}
        for cells, value in rows:
            largest[cells[0]] = max(largest.get(cells[0], 0), value)
        rows = [([*cells, bar(value, largest[cells[0]])], value) for cells, value in rows]
    drop = [columns.index(name) for name in ("batch", "of largest", "unit", "normalised") if name in columns]
    print_table(columns, [cells for cells, _ in rows], right={2, 4, 5, 7}, drop=drop)


def _network_rows(comparison: Comparison) -> list[tuple[list[str], float]]:
    """One line for each figure that a ratio rests on, in order of network, and its normalised value."""
    values = {
        value.cell: value
        for ratio in comparison.ratios
        for row in (ratio.numerator, ratio.denominator)
        for value in (row.values if row else ())
    }
    networks = list(dict.fromkeys(cell[3:] for cell in values))
    rows = []
    for cell in sorted(values, key=lambda c: networks.index(c[3:])):
        value = values[cell]
        throughput = value.record.metrics.throughput
        if throughput is None:
            continue
        cells = [
            cell.network if cell.size == "full" else f"{cell.network} {cell.size}",
            cell.system,
            str(cell.accelerators),
            cell.precision,
            str(value.record.job.batch_size or "-"),
            value_and_interval(throughput.value, throughput.ci95),
            throughput.unit,
            _show(value.value),
        ]
        rows.append((cells, value.value))
    return rows
