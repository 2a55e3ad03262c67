"""Sites for the browser tests, and the browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from accelmark import conclude, published
from accelmark.audit import audit
from accelmark.compare.pairs import pair_up
from accelmark.job import Job
from accelmark.record import Metrics, Record, Samples, Status
from accelmark.report import folder, record_pages, render
from accelmark.report.charts import charts
from accelmark.report.site import Content, make, views
from accelmark.report.tables import doubts_of
from accelmark.report.view import RecordView, Site
from tests.records import record, windows

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests; without one they are skipped, and say so."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium here: install it with the system's package manager")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright here: pip install -e '.[dev]'"
    )
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield launched
        launched.close()


@dataclass
class Heard:
    """Everything that a page said which a good page does not say."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def listen(self, page: Any) -> None:
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def remote(self) -> list[str]:
        """Requests for anything that is not on the disk; a download is a blob of the page's own."""
        return [url for url in self.requests if not url.startswith(("file:", "blob:file:", "blob:null"))]


def open_page(context: Any, address: str, heard: Heard | None = None, charts: bool = True) -> Any:
    """A page, when all of its tables and charts are there; without charts that is much sooner."""
    page = context.new_page()
    (heard or Heard()).listen(page)
    if not charts:
        page.route("**/assets/vega.js", lambda route: route.abort())
    page.goto(address)
    if page.locator("script[src$='report.js']").count():
        # A selector, since the page's policy forbids the evaluation that other ways of waiting need.
        state = "='all'" if charts else ""
        page.wait_for_selector(f"html[data-ready{state}]", state="attached", timeout=60_000)
    return page


def measured() -> list[Record]:
    """A handful of Records as a machine gives them: good, noisy, tiny, and without a result."""
    rate = {"throughput": conclude.throughput(windows(2000, spread=0.1), "images/s")}
    job = record().job.model_dump()
    return [
        record("good"),
        record("good-fp16", job=Job(**{**job, "precision": "bf16"})),
        record(
            "noisy",
            status=Status.NOISY,
            reasons=["±10.3 % after 20 windows, 5 % was asked for"],
            metrics=Metrics(**rate),
            samples=Samples(windows=windows(2000, spread=0.1)),
        ),
        record("tiny", job=Job(**{**job, "size": "tiny"})),
        record(
            "crashed",
            status=Status.CRASHED,
            reasons=["the process ended with signal 11"],
            metrics=Metrics(),
            samples=Samples(),
            log_tail="step 17\nSegmentation fault",
        ),
        record(
            "unsupported",
            status=Status.UNSUPPORTED,
            reasons=["bf16 is only emulated here"],
            metrics=Metrics(not_measured={"throughput": "bf16 is only emulated here"}),
            samples=Samples(),
        ),
    ]


@dataclass(frozen=True)
class Built:
    """A site on the disk, what it was made of, and its pages' addresses."""

    folder: Path
    site: Site
    views: Sequence[RecordView]

    def address(self, page: str) -> str:
        return (self.folder / f"{render.file_name(page)}.html").as_uri()


def build(site: Site, records: Sequence[RecordView], out: Path) -> Built:
    """The site on the disk, but for pictures of its charts, which take longest."""
    folder.prepare(out, True, folder.PARTS)
    render.write(site, record_pages.write(records, out / "data", "all"), out)
    return Built(out, site, records)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """All published rows and our own Records beside them."""
    own, others = measured(), published.load("published")
    records = [*own, *others]
    findings = audit(records)
    made = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    drawn = charts(records, findings=findings)
    site = make(Content(records, findings, drawn, pair_up(own, others, []), made=made))
    return build(site, list(views(records, doubts_of(findings))), tmp_path_factory.mktemp("site"))
