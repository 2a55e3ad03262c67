"""What `run` and `ceiling` share: a session begins, Records are shown, an exit code says how it went."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from accelmark.cli.table import print_json, print_records
from accelmark.errors import EXIT_INTERRUPTED, EXIT_MEASUREMENT_FAILED, EXIT_OK
from accelmark.importers.power import with_power
from accelmark.record import Record, Status
from accelmark.run.probe import examine
from accelmark.run.progress import reporter
from accelmark.run.session import Session
from accelmark.store import Store
from accelmark.text import safe

#: Ends that are answers, not failures: the Job ran, or it cannot run here.
_FINE = (Status.OK, Status.NOISY, Status.NOT_STATIONARY, Status.UNSUPPORTED)


def start(out: Path, device: str | None, system_name: str | None, seed: int, prepare: bool) -> Session:
    """Prove that results can be kept, look at the machine, and be ready to measure."""
    store = Store(out)
    if prepare:
        store.prepare()
    probe = examine()
    kind, system = probe.system(device)
    # A plain `kill` ends the worker and keeps what was measured, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return Session(
        probe=probe,
        device=kind,
        system=system.model_copy(update={"name": system_name}) if system_name else system,
        store=store,
        reporter=reporter(),
        command=shlex.join(["accelmark", *sys.argv[1:]]),
        shuffle_seed=seed,
    )


def with_meter(session: Session, records: Sequence[Record], log: Path) -> list[Record]:
    """The session's Records with what a power meter's log says of them, kept as such."""
    found = []
    for record in records:
        measured = with_power(record, log)
        if measured != record:
            session.store.write(measured)
        why = measured.metrics.not_measured.get("energy_j", "")
        if why.startswith(log.name):
            print(f"accelmark: {safe(record.job.label())}: {safe(why)}", file=sys.stderr)
        found.append(measured)
    return found


def finish(session: Session, records: Sequence[Record], as_json: bool) -> None:
    """Show what was measured and leave with the exit code for it."""
    session.reporter.close()
    if as_json:
        print_json(records)
    else:
        print_records(records)
        folder = shlex.quote(str(session.store.folder))
        print(f"\nRecords: {safe(session.store.folder)}   (accelmark show {safe(folder)})")
    if session.interrupted:
        print("accelmark: interrupted; --resume measures what is missing", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(
        EXIT_OK if all(record.status in _FINE for record in records) else EXIT_MEASUREMENT_FAILED
    )
