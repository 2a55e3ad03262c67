"""Making a report: Records gathered and compared, the folder made ready, the site or the tables written."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from accelmark import published
from accelmark.audit import audit
from accelmark.cli.options import words
from accelmark.cli.sources import beside as read_beside
from accelmark.cli.sources import need_records
from accelmark.compare.conditions import check_allowed
from accelmark.compare.pairs import pair_up
from accelmark.compare.study import STUDY, Comparison
from accelmark.compare.study import compare as compare_study
from accelmark.errors import UsageError, unknown
from accelmark.index import select
from accelmark.record import Record
from accelmark.report import export, folder, record_pages, render, tables
from accelmark.report.charts import charts, to_png
from accelmark.report.pictures import drawing
from accelmark.report.site import Content, make
from accelmark.store import json_files
from accelmark.text import safe

FORMATS = ("html", *export.FORMATS, "png")


@dataclass(frozen=True)
class Wanted:
    """What the options say."""

    paths: Sequence[Path]
    beside: Sequence[str]
    format: str
    baseline: str | None
    allow: str | None
    title: str
    out: Path | None
    force: bool


def make_report(wanted: Wanted) -> None:
    """Write what is wanted, and say where."""
    # Records hold no cycles; looking for them among very many takes a third of the time.
    collected = gc.isenabled()
    gc.disable()
    try:
        _make(wanted)
    finally:
        if collected:
            gc.enable()


def _make(wanted: Wanted) -> None:
    if wanted.format not in FORMATS:
        raise unknown("format", wanted.format, FORMATS)
    if not wanted.paths and not wanted.beside:
        raise UsageError(
            "nothing to report: give a folder of Records, or --with published for what is carried."
        )
    own = _own(wanted.paths)
    others = [record for name in wanted.beside for record in read_beside(name)]
    records = list({record.id: record for record in (*own, *others)}.values())
    if wanted.baseline is not None:
        systems = {record.system.name for record in records}
        if wanted.baseline not in systems:
            raise unknown("system", wanted.baseline, map(safe, systems))
    out = wanted.out or Path("site" if wanted.format == "html" else "report")
    allow = words("--allow", wanted.allow) or []
    check_allowed(allow, records)
    findings = audit(records)
    if wanted.format not in ("html", "png"):
        folder.prepare(out, wanted.force)
        written = export.write(tables.build(records, findings), wanted.format, out)
        typer.echo(f"written: {', '.join(safe(path) for path in written)}")
        return
    drawn = charts(records, wanted.baseline, findings)
    if wanted.format == "png":
        folder.prepare(out, wanted.force)
        for chart in drawn:
            folder.write(out, f"{chart.name}.png", to_png(chart))
        typer.echo(f"{len(drawn)} charts written to {safe(out)}")
        return
    folder.prepare(out, wanted.force, folder.PARTS)
    files = sorted(map(os.fspath, json_files(wanted.paths)))
    doubts = tables.doubts_of(findings)
    # Pictures and Records in full take longest: other processes make them while this one does the rest.
    with drawing(drawn, out / "charts"), record_pages.writing(files, others, doubts, out / "data") as places:
        content = Content(
            records,
            findings,
            charts=drawn,
            pairing=pair_up(own, others, allow) if own and others else None,
            study=_study(wanted.beside),
            title=wanted.title,
        )
        render.write(make(content), places, out)
    typer.echo(f"{len(records):,} Records in {safe(out)}: open {safe(out / 'index.html')}")


def _own(paths: Sequence[Path]) -> list[Record]:
    """The Records in these paths without their raw samples, which only their own pages need."""
    if not paths:
        return []
    answer = select(paths)
    for problem in answer.problems:
        typer.echo(f"accelmark: warning: {problem}", err=True)
    return need_records(paths, answer.records)


def _study(beside: Sequence[str]) -> Comparison | None:
    """The averages of a published study whose figures are beside the Records."""
    for name, entry in published.SETS.items():
        if entry.study is not None and (name in beside or published.ALL in beside):
            study = entry.study
            return compare_study(
                published.figures(name),
                study.reference,
                dict(study.groups),
                list(study.numerators),
                options=STUDY,
            )
    return None
