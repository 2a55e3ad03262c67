"""From Records to the site's content: headlines in words, machines, comparisons, Records in full."""

from __future__ import annotations

from datetime import UTC, datetime

from accelmark import published
from accelmark.audit import audit
from accelmark.compare.pairs import pair_up
from accelmark.compare.study import STUDY, compare
from accelmark.record import Source, Status
from accelmark.report.site import Content, make, views
from accelmark.report.tables import doubts_of
from accelmark.report.view import Site
from accelmark.system import Accelerator, System
from tests.records import measured, record

MADE = datetime(2026, 11, 30, 12, tzinfo=UTC)


def published_site() -> Site:
    records = published.load("published")
    study = published.SETS["lambda-2021-08"].study
    assert study is not None
    ratios = compare(
        published.figures("lambda-2021-08"),
        study.reference,
        dict(study.groups),
        list(study.numerators),
        options=STUDY,
    )
    return make(Content(records, audit(records), study=ratios, made=MADE))


def test_the_published_rows_make_all_pages() -> None:
    site = published_site()
    assert [page.name for page in site.pages] == [
        "overview",
        "convergence",
        "training",
        "inference",
        "mlperf",
        "serving",
        "speech",
        "systems",
    ]
    assert site.made == "2026-11-30 12:00 UTC"
    assert site.headlines[0] == "533 published rows, of 10 systems."
    assert "1x RTX A6000 over as many RTX 3090, convnets, 32-bit: 0.92x (no interval)." in site.headlines
    assert "The audit found 5 errors and 9 warnings; the rows are marked and say why." in site.headlines
    boards = {machine.name: dict(machine.facts) for machine in site.machines}
    assert boards["T4"]["peak, int8, dense"] == "130.0 TOP/s"
    assert boards["T4"]["Records of others"] == str(
        sum(r.system.name == "T4" for r in published.load("published"))
    )


def test_ones_own_records_beside_others_in_words() -> None:
    own = [
        measured("new", [134.0, 134.5, 133.5]),
        measured("small", [9.0, 9, 9], job=record().job.model_copy(update={"size": "tiny"})),
        record("dead", status=Status.CRASHED),
    ]
    other = measured(
        "base", [100.0, 100, 100], system=System(name="RTX 3090", accelerator=Accelerator(name="RTX 3090"))
    ).replace(source=Source.PUBLISHED)
    site = make(Content([*own, other], pairing=pair_up(own, [other]), made=MADE))
    assert site.headlines[0] == (
        "3 Records measured here, of 1 system; 1 of them have no result, and say why."
    )
    assert any(
        "1 pair of Records under the same conditions: geometric mean 1.34x" in h for h in site.headlines
    )
    assert any(
        h.startswith("resnet50-v1.5 fp32 batch 8 1x on test machine: 1.34x (95 % interval 1.3")
        and h.endswith("as fast as RTX 3090 (base).")
        for h in site.headlines
    )
    (comparisons,) = (t for page in site.pages for t in page.tables if t.name == "comparisons")
    texts = {line.id: [cell.text for cell in line.cells] for line in comparisons.lines}
    assert texts["new"][4] == "1.34x"
    assert texts["small"][4] == "not comparable"
    flags = {line.id: line.flags for line in comparisons.lines}
    assert flags["small"][0].kind == "not-comparable"
    assert "size tiny ≠ full" in flags["small"][0].why
    machine = next(m for m in site.machines if m.name == "test machine")
    assert ("accelerator", "2x test CPU (cpu)") in machine.facts


def test_every_record_in_full_with_the_command_that_repeats_it() -> None:
    rows = [published.find("nvidia-2021-04/666"), measured("own/../../evil; rm -rf", [100.0, 101, 99])]
    found = list(views(rows, doubts_of(audit(published.load("published")))))
    assert found[0].command == "accelmark reproduce nvidia-2021-04/666"
    # A file's name that is safe whatever the id is; never a command that a Record brings along.
    assert found[1].command.startswith("accelmark reproduce ")
    assert ";" not in found[1].command
    assert found[0].flags[0].kind == "doubtful"
    fields = dict(found[0].fields)
    assert fields["origin.row"] == "Quartznet | 256 | 254.3 | 64 | A100 SXM4-40GB"
    assert fields["metrics.throughput.value"] == "64.0"
    assert found[0].chart is None
    assert found[1].chart is not None


def test_a_log_cannot_steer_the_page() -> None:
    (view,) = views([record(log_tail="line one\n\x1b[31mred\u202e\n<b>")], {})
    assert view.log_tail.splitlines()[0] == "line one"
    assert "\x1b" not in view.log_tail
    assert "\u202e" not in view.log_tail
