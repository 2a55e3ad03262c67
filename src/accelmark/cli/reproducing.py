"""Repeating a Record: the plan on the terminal, or the run and how it compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from accelmark import published
from accelmark.cli.sources import beside
from accelmark.errors import UnsupportedError, UsageError
from accelmark.record import Record
from accelmark.run.reproduce import Reproduction, look, reproduce
from accelmark.text import safe


def show_plan(target: str, size: str | None, as_json: bool) -> None:
    """Print the Jobs that would run and what is missing for them."""
    record = _record(target)
    plans = reproduce(record, look(), size)
    if as_json:
        objects = [
            {
                "record": record.id,
                "job": plan.job.model_dump(mode="json"),
                "batch_size_rule": plan.rule,
                "changes": [str(change) for change in plan.changes],
                "missing": list(plan.missing),
            }
            for plan in plans
        ]
        print(json.dumps(objects, indent=1, ensure_ascii=False))
        return
    print(safe(record.id))
    if record.origin is not None and record.origin.row:
        print(f"  as published: {safe(record.origin.row)}")
    for plan in plans:
        _print_plan(plan)


def _print_plan(plan: Reproduction) -> None:
    job = plan.job
    batch = f"batch {job.batch_size or 'not known'}"
    if plan.rule:
        batch = f"the batch that --batch-size {plan.rule} finds here"
    parts = [
        job.network,
        job.scenario,
        f"size {job.size}",
        f"{job.framework} {job.engine}",
        job.precision or "precision not known",
        batch,
        f"{job.accelerators} accelerator{'s' if job.accelerators > 1 else ''}",
    ]
    if job.sequence_length is not None:
        parts.append(f"sequence length {job.sequence_length}")
    if job.partition is not None:
        parts.append(f"partition {job.partition}")
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in job.parameters.items()]
    print(f"\n  {'would run here' if not plan.missing else 'cannot run here'}: {safe(', '.join(parts))}")
    for change in plan.changes:
        print(f"    {safe(change)}")
    for what in plan.missing:
        print(f"    missing: {safe(what)}")


def run_again(
    target: str, size: str | None, time_budget: str | None, device: str | None, out: Path, as_json: bool
) -> None:
    """Measure the Jobs and show the Records beside the source."""
    from accelmark.cli import options
    from accelmark.cli.measuring import finish, start
    from accelmark.cli.pairing import print_pairs
    from accelmark.compare.pairs import pair_up

    record = _record(target)
    settings = options.settings([], device, False, time_budget=options.seconds("--time-budget", time_budget))
    plans = reproduce(record, look(), size)
    _stop_if_hopeless(record, plans)
    session = start(out, device, None, 0, prepare=True)
    plans = reproduce(record, session.system, size)
    _stop_if_hopeless(record, plans)
    records = session.run([plan.planned(settings) for plan in plans], resume=False)
    if not as_json:
        for plan in plans:
            for change in plan.changes:
                print(f"accelmark: {safe(plan.job.network)}: {safe(change)}", file=sys.stderr)
        print_pairs(pair_up(records, _sources(record, records)))
    finish(session, records, as_json)


def _stop_if_hopeless(record: Record, plans: Sequence[Reproduction]) -> None:
    """Missing networks and scenarios are missing whatever the machine is; no framework needs to start."""
    if all(plan.missing for plan in plans):
        missing = "; ".join(dict.fromkeys(what for plan in plans for what in plan.missing))
        raise UnsupportedError(
            f"{record.id} cannot be repeated here: {missing}. --dry-run shows the Job, --size tiny asks for "
            f"less."
        )


def _sources(record: Record, records: Sequence[Record]) -> list[Record]:
    """What the new Records stand beside: the source, or for a ratio the figures that it was formed of."""
    if record.metrics.ratio is None:
        return [record]
    name = record.id.partition("/")[0]
    networks = {each.job.network for each in records}
    return [
        figure
        for figure in published.figures(name)
        if figure.job.network in networks
        and figure.system.name == record.system.name
        and figure.job.precision == record.job.precision
        and figure.job.accelerators == record.job.accelerators
    ]


def _record(target: str) -> Record:
    found = beside(target)
    if len(found) != 1:
        raise UsageError(
            f"{safe(target)} holds {len(found)} Records; name one row, such as nvidia-2021-04/176, or one "
            f"file."
        )
    return found[0]
