"""Ways to serve a load on the terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from accelmark import published
from accelmark.audit import audit, doubts
from accelmark.cli.sources import beside, read_own
from accelmark.compare.choose import Choice, Choices, Need, choose
from accelmark.compare.prices import Prices, read_prices
from accelmark.errors import UsageError, unknown
from accelmark.record import Record
from accelmark.text import number, print_table, safe


def print_choices(
    paths: Sequence[Path], need: Need, prices_file: Path | None, own_only: bool, as_json: bool
) -> None:
    """Print every way to serve the load, the cheapest or smallest first."""
    if need.rate <= 0:
        raise UsageError("--qps must be more than 0: how many queries, sequences or images come in a second.")
    if own_only and not paths:
        raise UsageError("--own-only leaves nothing to choose from: give a folder of Records.")
    prices = read_prices(prices_file) if prices_file else None
    records = [] if own_only else beside(published.ALL)
    records += read_own(paths) if paths else []
    _check(need, records)
    choices = choose(records, need, prices)
    doubted = {identity: found[0].rule for identity, found in doubts(audit(records)).items()}
    if as_json:
        print(json.dumps([_as_dict(choice, prices, doubted) for choice in choices.found], indent=1))
        return
    if not choices.found:
        raise UsageError(
            f"no Record of {safe(need.network)}, {safe(need.scenario)}, meets this: {_why_not(choices)}."
        )
    _print(choices, need, prices, doubted)


def _check(need: Need, records: Sequence[Record]) -> None:
    served = [record for record in records if record.metrics.throughput is not None]
    networks = {record.job.network for record in served}
    if need.network not in networks:
        raise unknown("network", need.network, networks)
    scenarios = {record.job.scenario for record in served if record.job.network == need.network}
    if need.scenario not in scenarios:
        raise UsageError(
            f"there is no Record of {safe(need.network)} in the scenario {safe(need.scenario)!r}; "
            f"there are: {safe(', '.join(sorted(scenarios)))}."
        )


def _why_not(choices: Choices) -> str:
    counts = Counter(why for _, why in choices.rejected)
    return safe("; ".join(f"{why} ({count})" for why, count in counts.most_common(4)))


def _as_dict(choice: Choice, prices: Prices | None, doubted: dict[str, str]) -> dict[str, object]:
    record = choice.record
    return {
        "record": record.id,
        "accelerator": record.system.accelerator.name,
        "accelerators": choice.accelerators,
        "copies": choice.copies,
        "measured_on": record.job.accelerators,
        "partition": record.job.partition,
        "server": record.system.server,
        "throughput": record.metrics.throughput.value if record.metrics.throughput else None,
        "unit": record.metrics.throughput.unit if record.metrics.throughput else None,
        "latency": choice.latency,
        "spare": choice.spare,
        "power_w": choice.power.watts if choice.power else None,
        "power_of": choice.power.of if choice.power else None,
        "price": choice.price,
        "price_of": str(prices) if prices and choice.price is not None else None,
        "assumptions": list(choice.assumptions),
        "doubt": doubted.get(record.id),
    }


def _print(choices: Choices, need: Need, prices: Prices | None, doubted: dict[str, str]) -> None:
    bound = "" if need.latency_ms is None else f" within {need.latency_ms:g} ms"
    print(safe(f"{need.network}, {need.scenario}: {need.rate:,.10g} a second{bound}") + "\n")
    columns = ["accelerators", "each", "spare", "latency", "power", "rests on", "assumes"]
    if prices is not None:
        columns.insert(5, "price")
    rows = []
    for choice in choices.found:
        record = choice.record
        throughput = record.metrics.throughput
        each = (
            f"{throughput.value:,.10g} {throughput.unit} on {record.job.accelerators}" if throughput else ""
        )
        if record.job.partition is not None:
            each += f" ({record.job.parameters.get('instances', 1)} x {record.job.partition})"
        power = f"{number(choice.power.watts, 3)} W ({choice.power.of})" if choice.power else "not known"
        notes = list(choice.assumptions)
        if record.id in doubted:
            notes.append(f"the audit doubts the row: {doubted[record.id]}")
        cells = [
            f"{choice.accelerators}x {record.system.accelerator.name}",
            each,
            f"{choice.spare:.0%}",
            choice.latency,
            power,
            record.id,
            "; ".join(notes) or "nothing: measured at this size",
        ]
        if prices is not None:
            price = "not known" if choice.price is None else f"{number(choice.price, 4)} {prices.currency}"
            cells.insert(5, price)
        rows.append(cells)
    print_table(columns, rows, right={2})
    if prices is not None:
        print(safe(f"\nprice: {prices}"))
    if choices.rejected:
        print(f"\nleft out: {_why_not(choices)}")
