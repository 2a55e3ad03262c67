"""How fast a report is: making a site of many Records, and opening its pages in a browser.

    python bench/report.py [--records 10000] [--opens 5]

Records are made up, with 60 windows in three processes each, as a measurement keeps. The site is made twice,
with no index of the Records and with the one that the first has left. Then every page with tables of a site
of the published rows is opened in headless Chromium, one after the other and all of them again, and it is
measured when its first table and its last one answer.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from accelmark import conclude
from accelmark.job import Job
from accelmark.record import Metrics, Record, Samples, Status, Window
from accelmark.store import file_name
from accelmark.system import Accelerator, System

NETWORKS = ("resnet50-v1.5", "ssd300-resnet50", "mask-rcnn-r50-fpn", "transformer-xl-base", "bert-large")
LIMIT = 5_000_000
#: Runs before a page's own scripts: notes when a table has rows, and what the page says of itself.
WATCH = """
window.seen = {};
new MutationObserver(() => {
  if (!seen.first && document.querySelector("section[data-table] tbody tr")) seen.first = performance.now();
  if (!seen.last && document.documentElement.dataset.ready) seen.last = performance.now();
}).observe(document, {childList: true, subtree: true, attributes: true});
"""


def make_records(count: int, folder: Path) -> None:
    dice = random.Random(1)  # noqa: S311 - nothing secret
    system = System(name="test machine", accelerator=Accelerator(name="test GPU", kind="cuda", count=8))
    for number in range(count):
        rate = dice.uniform(50, 500)
        windows = [
            Window(
                process=process,
                start_s=place * 0.5,
                seconds=0.5,
                units=rate * 0.5 * dice.gauss(1, 0.01),
                steps=4,
            )
            for process in range(3)
            for place in range(20)
        ]
        record = Record(
            id=f"made-up-{number:06}",
            source="measured",
            status=Status.OK,
            started_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
            job=Job(
                network=dice.choice(NETWORKS),
                scenario="training",
                framework="pytorch",
                precision=dice.choice(("fp32", "tf32", "fp16")),
                batch_size=dice.choice((8, 16, 32, 64)),
                accelerators=dice.choice((1, 1, 2, 4, 8)),
            ),
            system=system,
            metrics=Metrics(throughput=conclude.throughput(windows, "images/s")),
            samples=Samples(windows=windows),
        )
        (folder / file_name(record.id)).write_text(record.model_dump_json(exclude_none=True))


def make_site(words: list[str], out: Path, cache: Path) -> tuple[float, float]:
    """Seconds, and the GiB of memory of the largest process."""
    before = time.perf_counter()
    command = [
        str(Path(sys.executable).with_name("accelmark")),
        "report",
        *words,
        "--with",
        "published",
        "--out",
        str(out),
    ]
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(cache)}
    )
    seconds = time.perf_counter() - before
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def open_pages(site: Path, opens: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds from opening to the first table and to the last, of each page."""
    from playwright.sync_api import sync_playwright

    pages = [path for path in sorted(site.glob("*.html")) if "data-table=" in path.read_text("utf-8")]
    times: dict[str, list[tuple[float, float]]] = {path.name: [] for path in pages}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for path in pages * (opens + 1):
            context = browser.new_context(viewport={"width": 1400, "height": 900})
            context.add_init_script(WATCH)
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_function("window.seen.last")
            seen = page.evaluate("window.seen")
            times[path.name].append((seen["first"], seen["last"]))
            context.close()
        browser.close()
    # The first of each warms the disk's cache and the browser up.
    return {name: measured[1:] for name, measured in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--opens", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        results, cache = base / "results", base / "cache"
        results.mkdir()
        make_site([], base / "published", cache)
        print(f"{'page':20} {'first table':>12} {'last table':>12}    ms, median of {options.opens} (most)")
        for name, measured in open_pages(base / "published", options.opens).items():
            columns = zip(*measured, strict=True)
            shown = (f"{statistics.median(column):5.0f} ({max(column):4.0f})" for column in columns)
            print(f"{name:20} {' '.join(shown)}")
        make_records(options.records, results)
        for how in ("no index", "an index"):
            seconds, memory = make_site([str(results)], base / "site", cache)
            print(
                f"{options.records:,} Records with {how}: {seconds:.1f} s, at most {memory:.2f} GiB a process"
            )
        largest = max((path.stat().st_size, path.name) for path in (base / "site").rglob("*"))
        print(f"largest file: {largest[1]}, {largest[0]:,} bytes of {LIMIT:,}")


if __name__ == "__main__":
    main()
