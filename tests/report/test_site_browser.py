"""The built site in a browser: pages, tables, links, charts, accessibility, and a hostile set of Records."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from accelmark import conclude
from accelmark.errors import CannotWriteError
from accelmark.job import Job
from accelmark.record import Metrics, Origin, Record
from accelmark.report import record_pages, render
from accelmark.report.charts import SELECTOR, Chart, charts
from accelmark.report.pictures import drawing
from accelmark.report.site import Content, make, views
from accelmark.report.view import Cell, Column, Flag, Line, Machine, Page, RecordView, Site, Table
from accelmark.system import Accelerator, System
from tests.records import record, windows
from tests.report.conftest import Built, Heard, build, open_page
from tests.report.test_tables import COUNTS

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PAGES = (
    "overview",
    "convergence",
    "training",
    "inference",
    "mlperf",
    "serving",
    "speech",
    "systems",
    "method",
    "record",
)


# ---------------------------------------------------------------- every page


@dataclass
class Opened:
    name: str
    page: Any
    heard: Heard


@pytest.fixture(scope="module", params=PAGES)
def opened(request: pytest.FixtureRequest, browser: Any, built: Built) -> Iterator[Opened]:
    name = request.param
    heard = Heard()
    context = browser.new_context(color_scheme="light", viewport={"width": 1440, "height": 900})
    address = built.address(name)
    page = open_page(context, f"{address}#good" if name == "record" else address, heard)
    yield Opened(name, page, heard)
    context.close()


def _shoot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)


def _serious(page: Any, options: dict[str, Any] | None = None) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    # Not into the drawings: to a screen reader each is one picture with a text. Not every line of a table
    # either: the contrast of each of its cells takes long to find, and is that of the first lines again.
    excluded = [
        [".drawing > div"],
        ["tbody tr:not(.flagged):nth-child(n+3)"],
        [".charts figure:nth-child(n+3)"],
    ]
    found = Axe().run(page, {"exclude": excluded}, {"resultTypes": ["violations"], **(options or {})})
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}"
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_a_page_is_quiet(opened: Opened) -> None:
    _shoot(opened.page, f"{opened.name}-light")
    assert opened.heard.errors == []
    assert opened.heard.remote() == []
    assert opened.heard.dialogs == []
    assert opened.page.locator("[role=alert]").count() == 0


def test_a_page_has_a_title_one_heading_and_the_navigation(opened: Opened, built: Built) -> None:
    page = opened.page
    assert built.site.title in page.title()
    assert page.locator("h1").count() == 1
    links = page.locator("nav[aria-label=Pages] a")
    assert links.count() == len(built.site.pages) + 1
    for place in range(links.count()):
        assert (built.folder / links.nth(place).get_attribute("href")).is_file()
    if opened.name != "record":
        assert page.locator("nav[aria-label=Pages] [aria-current=page]").count() == 1


def test_charts_have_their_marks(opened: Opened, built: Built) -> None:
    charts = {
        chart.name: chart for page in built.site.pages if page.name == opened.name for chart in page.charts
    }
    drawn = opened.page.eval_on_selector_all(
        "[data-chart]",
        f"places => places.map(p => [p.dataset.chart, p.querySelectorAll({json.dumps(SELECTOR)}).length])",
    )
    assert dict(drawn) == {name: chart.marks for name, chart in charts.items()}
    for chart in charts.values():
        figure = opened.page.locator(f"[id='chart-{chart.name}']")
        assert figure.locator("[role=img]").get_attribute("aria-label") == chart.description[:1000]
        assert figure.locator(f"a[href='charts/{chart.name}.svg']").count() == 1


def test_a_page_is_accessible_in_the_light_and_in_the_dark(opened: Opened) -> None:
    assert _serious(opened.page) == []
    opened.page.emulate_media(color_scheme="dark")
    if opened.page.locator("html[data-ready]").count():
        opened.page.wait_for_selector("html[data-ready='all']", state="attached", timeout=60_000)
    _shoot(opened.page, f"{opened.name}-dark")
    assert _serious(opened.page, {"runOnly": ["color-contrast"]}) == []


def test_a_page_fits_a_phone(opened: Opened) -> None:
    """The last of a page's tests: it stays small, and dark."""
    opened.page.set_viewport_size({"width": 360, "height": 740})
    _shoot(opened.page, f"{opened.name}-phone")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360


# ---------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(
        viewport={"width": 1440, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    yield made
    made.close()


def _tables(context: Any, address: str) -> Any:
    return open_page(context, address, charts=False)


def _section(page: Any, name: str) -> Any:
    return page.locator(f"#table-{name}")


def _rows(page: Any, name: str) -> int:
    return int(_section(page, name).locator("tbody tr:not(:has(.dt-empty))").count())


def _column(page: Any, name: str, title: str) -> list[str]:
    section = _section(page, name)
    titles = [text.strip() for text in section.locator("thead th").all_inner_texts()]
    return [
        text.strip()
        for text in section.locator(f"tbody td:nth-child({titles.index(title) + 1})").all_inner_texts()
    ]


def _heading(page: Any, name: str, title: str) -> Any:
    return _section(page, name).locator("thead th").filter(has_text=title).first


def _show_all(page: Any, name: str) -> None:
    _section(page, name).locator("select.dt-input").select_option("1000")


def _total(page: Any, name: str) -> int:
    info = _section(page, name).locator(".dt-info").inner_text()
    return int(info.split(" of ")[1].split()[0].replace(",", "")) if " of " in info else 0


def test_the_originals_tables_are_complete(context: Any, built: Built) -> None:
    for place in built.site.pages:
        names = [table.name for table in place.tables if table.name in COUNTS]
        if not names:
            continue
        page = _tables(context, built.address(place.name))
        source = page.locator("#facet-source")
        if source.count():
            source.select_option("published")
        for name in names:
            assert _total(page, name) == COUNTS[name], name
            assert _rows(page, name) == min(25, COUNTS[name]), name
        longest = max(names, key=lambda name: COUNTS[name])
        if COUNTS[longest] > 25:
            _show_all(page, longest)
        assert _rows(page, longest) == COUNTS[longest]
        page.close()
    shown = {table.name for place in built.site.pages for table in place.tables}
    assert set(COUNTS) <= shown


#: The lines are sorted soon after the click, and the heading says when.
_SORTED = "([heading, order]) => heading.getAttribute('aria-sort') === order"


def test_a_column_is_sorted_by_its_figures_and_what_has_none_comes_last(context: Any, built: Built) -> None:
    page = _tables(context, built.address("training"))
    _show_all(page, "training-one")
    original = _column(page, "training-one", "No.")
    heading = _heading(page, "training-one", "Throughput")
    for order, descending in (("ascending", False), ("descending", True)):
        heading.click()
        page.wait_for_function(_SORTED, arg=[heading.element_handle(), order])
        shown = _column(page, "training-one", "Throughput")
        figures = [float(text.split()[0].replace(",", "")) for text in shown if text[0].isdigit()]
        assert figures == sorted(figures, reverse=descending)
        without = [text for text in shown if not text[0].isdigit()]
        assert without
        assert shown[-len(without) :] == without
    heading.click()
    page.wait_for_function(_SORTED, arg=[heading.element_handle(), None])
    assert _column(page, "training-one", "No.") == original
    page.close()


def test_facets_and_search_narrow_every_table_of_the_page(context: Any, built: Built) -> None:
    page = _tables(context, built.address("mlperf"))
    page.locator("#facet-network").select_option("resnet50-v1.5")
    lines = [
        line
        for place in built.site.pages
        if place.name == "mlperf"
        for table in place.tables
        for line in table.lines
        if line.facets.get("network") == "resnet50-v1.5"
    ]
    names = [table.name for place in built.site.pages if place.name == "mlperf" for table in place.tables]
    assert sum(_total(page, name) for name in names) == len(lines) > 0
    assert f"{len(lines)} of 107 lines match" in page.locator("#matches").inner_text()
    page.locator("#search").fill("a100-pcie")
    fewer = [line for line in lines if any("A100-PCIe" in cell.text for cell in line.cells)]
    page.wait_for_selector(f"#matches:has-text('{len(fewer)} of')")
    assert sum(_total(page, name) for name in names) == len(fewer)
    page.locator("#filters button[type=reset]").click()
    page.wait_for_selector("#matches:has-text('107 lines in')")
    page.close()


def test_a_link_holds_filters_search_order_hidden_columns_and_page(context: Any, built: Built) -> None:
    page = _tables(context, built.address("inference"))
    page.locator("#facet-precision").select_option("int8")
    page.locator("#search").fill("tensorrt")
    _heading(page, "inference", "Latency").click()
    section = _section(page, "inference")
    section.get_by_role("button", name="Columns").click()
    page.locator(".dt-button-collection button", has_text="Container").click()
    page.keyboard.press("Escape")
    section.locator(".dt-paging-button", has_text="2").click()
    section.get_by_role("button", name="Copy link").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    before = section.locator("tbody tr").all_inner_texts()
    assert page.evaluate("window.location.hash") in copied
    page.close()

    again = _tables(context, copied)
    section = _section(again, "inference")
    assert section.locator("tbody tr").all_inner_texts() == before
    assert again.locator("#facet-precision").input_value() == "int8"
    assert again.locator("#search").input_value() == "tensorrt"
    assert "Container" not in section.locator("thead").inner_text()
    assert "Lines 26 to" in section.locator(".dt-info").inner_text()
    again.close()


def test_a_link_that_makes_no_sense_opens_the_page(context: Any, built: Built) -> None:
    heard = Heard()
    nonsense = "#?q=%00&precision=none+such&t.inference=o999d_h0-999_p99999_l7_zzz&t.__proto__=o1a&at=%3Cb%3E"
    page = open_page(context, built.address("inference") + nonsense, heard)
    assert "No line matches" in _section(page, "inference").inner_text()
    assert heard.errors == []
    page.close()


def test_the_csv_is_what_is_shown(context: Any, built: Built, tmp_path: Path) -> None:
    page = _tables(context, built.address("serving") + "#?t.serving=o10d_h2")
    section = _section(page, "serving")
    with page.expect_download() as download:
        section.get_by_role("button", name="Download CSV").click()
    file = tmp_path / "shown.csv"
    download.value.save_as(file)
    assert download.value.suggested_filename == "accelmark-serving.csv"
    (table,) = (table for place in built.site.pages for table in place.tables if table.name == "serving")
    header, *rows = list(csv.reader(file.read_text("utf-8-sig").splitlines()))
    titles = [column.title for column in table.columns]
    flagged = any(line.flags for line in table.lines)
    assert header == ["Record id", titles[0], *titles[2:], *(["Look twice"] if flagged else [])]
    lines = sorted(table.lines, key=lambda line: -(line.cells[9].order or 0))
    assert [row[0] for row in rows] == [line.id for line in lines]
    for row, line in zip(rows, lines, strict=True):
        texts = [cell.text for cell in line.cells]
        assert row[1 : len(titles)] == [texts[0], *texts[2:]]
    section.get_by_role("button", name="Copy", exact=True).click()
    copied = page.evaluate("navigator.clipboard.readText()").rstrip("\n").split("\n")
    assert [line.split("\t") for line in copied] == [header, *rows]
    page.close()


def test_a_marked_line_looks_different_and_says_why_to_the_keyboard_too(context: Any, built: Built) -> None:
    page = _tables(context, built.address("training") + "#?source=measured")
    section = _section(page, "training-one")
    for kind, why in (
        ("noisy", "±10.3 % after 20 windows"),
        ("tiny", "never comparable"),
        ("failed", "the process ended with signal 11"),
    ):
        row = section.locator(f"tr.flagged.{kind}").first
        assert kind in row.locator(".badge").first.inner_text()
        assert why in row.locator("td.reasons").inner_text()
        button = row.locator("button.why")
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        said = section.locator("td.why ul.reasons")
        assert why in said.inner_text()
        page.keyboard.press("Enter")
        assert said.count() == 0
    plain = section.locator("tbody tr:not(.flagged) td.record").first
    colour = "e => getComputedStyle(e).backgroundColor"
    assert plain.evaluate(colour) != section.locator("tr.flagged td.record").first.evaluate(colour)
    missing = section.locator("tr.failed em.quiet").first
    assert missing.inner_text().startswith("none")
    page.close()


def test_a_table_in_parts_loads_the_rest_when_asked(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "TABLE_PART", 20_000)
    monkeypatch.setattr(render, "TABLES_AT_ONCE", 50_000)
    lines = tuple(
        Line(
            f"many/{place}",
            (Cell(f"network {place}"), Cell(f"{place * 3 % 5000} images/s", place * 3 % 5000)),
        )
        for place in range(5000)
    )
    table = Table("many", "training", "Many", "", (Column("Network"), Column("Throughput", True)), lines)
    built = build(Site("Many", "now", (), (Page("training", "Training", "", (table,)),), ()), [], tmp_path)
    page = _tables(context, built.address("training"))
    assert 0 < _total(page, "many") < 5000
    page.locator(".load-rest").click()
    page.wait_for_selector("#matches:has-text('5,000 lines')")
    _heading(page, "many", "Throughput").click()
    assert _column(page, "many", "Throughput")[:3] == ["0 images/s", "1 images/s", "2 images/s"]
    again = _tables(context, page.url)
    assert _total(again, "many") == 5000
    page.close()
    again.close()


def test_without_javascript_a_page_says_what_it_needs(browser: Any, built: Built) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(built.address("inference"))
    assert "need JavaScript" in page.locator("noscript").first.inner_text()
    page.goto(built.address("method"))
    assert "RTFX" in page.locator("main").inner_text()
    context.close()


# ---------------------------------------------------------------- a Record


@pytest.mark.parametrize("identity", ["good", "crashed", "nvidia-2021-04/176", "lambda-2021-08/9"])
def test_a_records_page_shows_every_field_and_the_command(context: Any, built: Built, identity: str) -> None:
    view = next(each for each in built.views if each.id == identity)
    heard = Heard()
    page = open_page(context, f"{built.address('record')}#{quote(identity, safe='')}", heard)
    shown = page.eval_on_selector_all(
        "#record dl.fields dt", "terms => terms.map(t => [t.title, t.nextElementSibling.textContent])"
    )
    assert sorted(map(tuple, shown)) == sorted(view.fields)
    assert page.locator("h1").inner_text() == view.title
    assert page.locator("#record .command code").inner_text() == view.command
    page.locator("#copy-command").click()
    assert page.evaluate("navigator.clipboard.readText()") == view.command
    assert page.locator("#record pre").all_inner_texts() == ([view.log_tail] if view.log_tail else [])
    assert page.locator("#record .drawing svg").count() == (view.chart is not None)
    assert len(page.locator("#record ul.reasons li").all()) == len(view.flags)
    assert heard.errors == []
    page.close()


def test_a_table_leads_to_the_records_page_and_another_one_can_be_opened_there(
    context: Any, built: Built
) -> None:
    page = open_page(context, built.address("serving"))
    _section(page, "serving").locator("td.record a").first.click()
    page.wait_for_selector("#record .command")
    page.locator("#identity").fill("good")
    page.keyboard.press("Enter")
    page.wait_for_selector("#record .command:has-text('good')")
    page.locator("#identity").fill("no such Record")
    page.keyboard.press("Enter")
    page.wait_for_selector("#said:has-text('no Record of this id')")
    page.close()


def test_the_index_and_the_records_are_in_parts(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages, "PART", 2_000)
    monkeypatch.setattr(record_pages, "INDEX_PART", 500)
    ids = [f"räcord/{place}/\U0001f600" for place in range(120)]
    records = [RecordView(identity, f"title {identity}", (("id", identity),)) for identity in ids]
    built = build(Site("Many", "now", (), (Page("overview", "Overview", ""),), ()), records, tmp_path)
    assert len(list((tmp_path / "data").glob("records-*.js"))) > 5
    assert len(list((tmp_path / "data").glob("index-*.js"))) > 5
    for identity in (ids[0], ids[57], ids[-1]):
        page = open_page(context, f"{built.address('record')}#{quote(identity, safe='')}")
        assert page.locator("h1").inner_text() == f"title {identity}"
        page.close()


# ---------------------------------------------------------------- hostile Records

SCRIPT = "<script>window.hacked=1</script>"
IMAGE = '<img src="x" onerror="window.hacked=1">&amp;'
HOSTILE = (
    SCRIPT,
    IMAGE,
    "javascript:window.hacked=1",
    '"><svg onload=window.hacked=1>',
    "';alert(1);//\\",
    "</script><script>alert(1)</script>",
    "../../../../tmp/evil",
    '=HYPERLINK("http://example.invalid")',
    "\u202egnp.exe\u2066\u200f",
    "\u2028alert(1)\u2029",
    "{{ 7 * 7 }}{% raw %}",
    "__proto__",
    "\ud800",
    "x" * 1_000_000,
)


def _hostile_site() -> tuple[Site, list[RecordView]]:
    """A site of texts that nothing has made harmless on the way."""
    flag = Flag("doubtful", IMAGE)
    lines = tuple(
        Line(
            text[:200],
            (Cell(text), Cell(text, 1.0), Cell(text, quiet=True)),
            (flag, Flag(SCRIPT, text)),  # type: ignore[arg-type]
            {"network": text, "accelerator": IMAGE, SCRIPT: SCRIPT},
        )
        for text in HOSTILE
    )
    columns = (Column(SCRIPT, help=IMAGE), Column(IMAGE, True), Column('" onclick="window.hacked=1'))
    table = Table("hostile", "training", SCRIPT, IMAGE, columns, lines)
    spec = {
        "title": {"text": SCRIPT, "subtitle": IMAGE},
        "width": "container",
        "height": 100,
        "data": {
            # Vega itself fails on a category of the name __proto__; the page then says so.
            "values": [{"a": text[:300], "b": 1} for text in HOSTILE if text != "__proto__"]
        },
        "mark": {"type": "bar", "tooltip": {"content": "data"}},
        "encoding": {
            "x": {"field": "a", "type": "nominal", "title": IMAGE},
            "y": {"field": "b", "type": "quantitative"},
        },
    }
    chart = Chart("hostile", "training", SCRIPT, IMAGE, spec, len(HOSTILE), note=SCRIPT)
    site = Site(
        SCRIPT,
        IMAGE,
        HOSTILE,
        (Page("overview", SCRIPT, IMAGE), Page("training", IMAGE, SCRIPT, (table,), (chart,))),
        tuple(Machine(text, ((text, IMAGE),)) for text in HOSTILE),
    )
    records = [
        RecordView(text[:200], text, ((text, text), ("job.network", text)), (flag,), text, text, spec, IMAGE)
        for text in HOSTILE
    ]
    return site, records


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("around") / "site"
    folder.mkdir()
    return build(*_hostile_site(), folder)


def _unharmed(page: Any, heard: Heard) -> None:
    assert page.evaluate("window.hacked") is None
    assert heard.dialogs == []
    assert heard.remote() == []
    assert heard.errors == []
    own = page.evaluate("[...document.scripts].filter(s => s.textContent || !s.getAttribute('src')).length")
    assert own == 0
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, embed, [onclick], [onerror]').length")
        == 0
    )
    hrefs = page.eval_on_selector_all("a", "links => links.map(a => a.protocol)")
    assert set(hrefs) <= {"file:"}


def test_a_hostile_set_is_shown_as_text(context: Any, hostile: Built) -> None:
    heard = Heard()
    page = open_page(context, hostile.address("training"), heard)
    cells = _section(page, "hostile").locator("tbody td:nth-child(2)").all_inner_texts()
    assert cells[:2] == [SCRIPT, IMAGE]
    assert max(map(len, cells)) == render.MAX_CELL
    assert page.locator("h1").inner_text() == IMAGE
    for button in _section(page, "hostile").locator("button.why").all():
        button.click()
    page.locator("#search").fill("<img")
    page.wait_for_selector("#matches:has-text('match')")
    page.locator("#search").fill(SCRIPT)
    page.locator("#facet-network").select_option(IMAGE)
    page.locator("#facet-network").select_option("")
    page.locator("#search").fill("")
    _section(page, "hostile").get_by_role("button", name="Columns").click()
    page.keyboard.press("Escape")
    mark = page.locator(".drawing svg .role-mark path").first
    mark.hover()
    mark.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    _unharmed(page, heard)
    page.close()
    for name in ("overview", "method"):
        page = open_page(context, hostile.address(name), heard)
        _unharmed(page, heard)
        page.close()


def test_a_hostile_csv_holds_no_formula(context: Any, hostile: Built, tmp_path: Path) -> None:
    page = open_page(context, hostile.address("training"))
    with page.expect_download() as download:
        _section(page, "hostile").get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "hostile.csv")
    with (tmp_path / "hostile.csv").open(encoding="utf-8-sig", newline="") as file:
        _, *rows = list(csv.reader(file))
    assert len(rows) == len(HOSTILE)
    assert rows[0][1] == SCRIPT
    assert not [text for row in rows for text in row if text.startswith(("=", "@", "+", "\t"))]
    page.close()


def test_a_hostile_record_is_shown_as_text(context: Any, hostile: Built) -> None:
    heard = Heard()
    page = open_page(context, hostile.address("record"), heard)
    for text in HOSTILE:
        if text == "\ud800":
            continue  # half of a surrogate pair fits into no address
        page.evaluate("id => { window.location.hash = encodeURIComponent(id); }", text[:200])
        page.wait_for_selector("#record .drawing svg .role-mark")
        assert page.locator("h1").text_content()[:100] == text[:100]
        assert page.locator("#record dl.fields dd").first.text_content()[:200] == text[:200]
        assert page.locator("#record pre").text_content()[-100:] == text[-100:]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
        page.evaluate("document.getElementById('record').replaceChildren()")
    _unharmed(page, heard)
    page.close()


def test_nothing_is_written_outside_and_pictures_are_there(hostile: Built) -> None:
    with drawing([chart for page in hostile.site.pages for chart in page.charts], hostile.folder / "charts"):
        pass
    assert [path.name for path in hostile.folder.parent.iterdir()] == ["site"]
    assert {path.name for path in (hostile.folder / "charts").iterdir()} == {"hostile.svg", "hostile.png"}
    assert (hostile.folder / "charts" / "hostile.png").read_bytes().startswith(b"\x89PNG")
    for path in hostile.folder.rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or path.stat().st_size < 5_000_000
    notices = (hostile.folder / "assets" / "LICENSES.txt").read_text("utf-8")
    for name in ("DataTables 2", "jQuery", "Vega-Lite", "MIT License", "Redistribution and use"):
        assert name in notices


def test_a_chart_whose_name_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    chart = Chart("../evil", "training", "", "", {}, 0)
    with pytest.raises(ValueError, match="no plain file name"), drawing([chart], tmp_path):
        pass


def test_a_folder_that_is_gone_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotWriteError, match="cannot write"):
        render.write(Site("", "", (), (), ()), [], tmp_path / "gone")


def test_a_hostile_record_passes_the_whole_way(context: Any, tmp_path: Path) -> None:
    """From Records, with all that makes texts harmless on the way."""
    records = [_hostile_record(batch) for batch in (1, 2, 4, 8)]
    site = make(Content(records, charts=charts(records), title=SCRIPT))
    built = build(site, list(views(records, {})), tmp_path)
    heard = Heard()
    for place in site.pages:
        page = open_page(context, built.address(place.name), heard)
        _unharmed(page, heard)
        page.close()
    page = open_page(context, f"{built.address('record')}#{quote(records[0].id, safe='')}", heard)
    assert page.locator("#record .command").count() == 1
    _unharmed(page, heard)
    page.close()


def _hostile_record(batch: int) -> Record:
    return record(
        f"../{batch}/<b>\u202e",
        job=Job(
            network=SCRIPT,
            scenario="inference",
            framework="</script>",
            precision=IMAGE,
            batch_size=batch,
            data="javascript:alert(1)",
        ),
        system=System(name=IMAGE, accelerator=Accelerator(name=SCRIPT, kind="cuda", count=1)),
        metrics=Metrics(throughput=conclude.throughput(windows(100 * batch), SCRIPT)),
        reasons=["x" * 1_000_000],
        origin=Origin(page="javascript:alert(1)", row=IMAGE),
        log_tail=SCRIPT * 10_000,
        conditions={SCRIPT: IMAGE},
    )
