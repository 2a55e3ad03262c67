"""Tables as Markdown, CSV, JSON and LaTeX: what comes out again is what went in, however hostile."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import tracemalloc
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from accelmark import published
from accelmark.audit import audit
from accelmark.errors import CannotWriteError, UsageError
from accelmark.record import Record
from accelmark.report import export
from accelmark.report.tables import build
from accelmark.report.view import Cell, Column, Flag, Line, Table
from accelmark.text import visible
from tests.report.test_tables import COUNTS

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "![a](https://example.org/a.png)",
    "<https://example.org>",
    "https://example.org/a_b_c www.example.org mail@example.org @someone",
    "[a][b]",
    "&lt;b&gt; &#60; &amp;",
    "a|b \\| c \\\\| d\\",
    "`code` ``a`b`` `",
    "*a* **b** _c_ __d__ ~~e~~ ~f~",
    "# no heading",
    "$x^2$ \\(y\\) \\[z\\]",
    "line\nline\r\nline\u2028line",
    "| --- |\n\n# out of the table",
    "\u202eevil\u2066 \u200b",
    '=HYPERLINK("http://example.org")',
    "+1+1",
    "-2-3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "-5",
    "+1,234.5e3",
    "\\input{/etc/passwd} \\write18{id} \\end{document}",
    "{ } $ & # ^ _ ~ % -- --- `` '' ?` !` ,, << >> \"",
    "^^5cinput ^^M %",
    "[1cm] first",
    "* star",
    "1,234 ± 12 × 3 ≠ 4 ≤ µ ° — … é Å ñ č ß 漢字 🙂 \ud800 \x00",
    "w" * 500,
    "",
)
texts = (
    st.text(max_size=40)
    | st.sampled_from(HOSTILE)
    | st.text("\\`*_[]<>|~$#&!@:/.w{}^%'\"-=+ \n\ta", max_size=30)
)
once = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def table(rows: Sequence[Sequence[str]], name: str = "some-table", title: str = "A table") -> Table:
    columns = tuple(Column(f"column {i}", numeric=i == 1) for i in range(len(rows[0])))
    lines = tuple(
        Line(
            id=f"r/{number}",
            cells=tuple(Cell(text, 1.5 * number if i == 1 else None) for i, text in enumerate(row)),
            flags=(Flag("noisy", row[0]), Flag("doubtful", row[-1])) if number % 2 else (),
        )
        for number, row in enumerate(rows)
    )
    return Table(name, "page", title, "An introduction.", columns, lines)


HOSTILE_TABLE = table([[text, text, text] for text in HOSTILE], title="A $hostile_ table")


def shown(line: Line) -> list[str]:
    """What a reader sees of a line: its cells, then its flags in words."""
    return [*(cell.text for cell in line.cells), "; ".join(f"{flag.kind}: {flag.why}" for flag in line.flags)]


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return {record.id: record for record in published.load("published")}


@pytest.fixture(scope="module")
def tables(records: dict[str, Record]) -> list[Table]:
    return build(records.values(), audit(list(records.values())))


# Reading what was written


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def read_markdown(path: Path) -> list[list[list[str]]]:
    """Tables, rows and cells as a reader sees them; anything but text and code in a cell is an error."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found: list[list[list[str]]] = []
    for token in parser.parse(path.read_text(encoding="utf-8")):
        assert token.type not in {"html_block", "fence", "code_block"}
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level >= 4:
            found[-1][-1].append("".join(map(plain, token.children or [])))
    return found


def plain(token: Token) -> str:
    assert token.type in {"text", "text_special", "code_inline", "softbreak"}, token
    return token.content


LATEX = {
    r"\textbackslash{}": "\\",
    r"\textasciicircum{}": "^",
    r"\textasciitilde{}": "~",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\textquotedblright{}": '"',
    r"\allowbreak{}": "",
    r"\ensuremath{\pm}": "±",
    r"\ensuremath{\times}": "×",
    r"\ensuremath{\neq}": "≠",
    r"\ensuremath{\leq}": "≤",
    r"\ensuremath{\geq}": "≥",
    r"\ensuremath{\approx}": "≈",
    r"\ensuremath{\div}": "÷",
    r"\ensuremath{\rightarrow}": "→",
    r"\ensuremath{\cdot}": "·",
    r"\ensuremath{^{2}}": "²",
    r"\ensuremath{^{3}}": "³",
    r"\textendash{}": "–",
    r"\textquoteleft{}": "‘",
    r"\textquoteright{}": "’",
    r"\textquotedblleft{}": "“",
    r"\ensuremath{\mu}": "µ",
    r"\ensuremath{^{\circ}}": "°",
    r"\textemdash{}": "—",
    r"\ldots{}": "…",
    r"\ss{}": "ß",
    r"\`{}": "`",
    "'{}": "'",
    "-{}": "-",
    ",{}": ",",
    **{f"\\{character}": character for character in "{}$&#%_"},
}
ACCENTS = dict(
    zip(
        "`'^~=u.\"rHvc",
        "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327",
        strict=True,
    )
)
TOKEN = re.compile(
    r"\\(?P<accent>[`'^~=u.\"rHvc])\{(?P<letter>[A-Za-z])\}|"
    + "|".join(re.escape(each) for each in sorted(LATEX, key=len, reverse=True))
    + r"|[^\\{}$&#^_~%]",
    re.DOTALL,
)


def from_latex(text: str) -> str:
    """The text that LaTeX would set; a special character that is not escaped is an error."""
    position, found = 0, ""
    while position < len(text):
        match = TOKEN.match(text, position)
        assert match, text[position:]
        assert match[0].isascii()
        letter, accent = match["letter"], match["accent"]
        if letter:
            found += unicodedata.normalize("NFC", letter + ACCENTS[accent])
        else:
            found += LATEX.get(match[0], match[0])
        position = match.end()
    return found


def read_latex(path: Path) -> list[list[list[str]]]:
    found = []
    for body in re.findall(
        r"\\toprule\n(.*?)\\end\{longtable\}", path.read_text(encoding="utf-8"), re.DOTALL
    ):
        lines = re.sub(r"\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n", "", body).split("\n")
        assert lines.pop() == ""
        rows = []
        for line in lines:
            assert line.endswith(r" \\[1.5pt]")
            cells = re.split(r"(?<!\\) & ", line.removesuffix(r" \\[1.5pt]"))
            rows.append([from_latex(cell) for cell in cells])
        found.append(rows)
    return found


def as_latex_shows(text: str) -> str:
    """Characters that no LaTeX font has are shown by their numbers."""
    known = {*LATEX.values(), *"éÅñč"}
    return "".join(c if c.isascii() or c in known else f"\\u{ord(c):04x}" for c in visible(text))


# What went in comes out


def test_hostile_csv_comes_back(tmp_path: Path) -> None:
    (path,) = export.write([HOSTILE_TABLE], "csv", tmp_path)
    assert path == tmp_path / "some-table.csv"
    rows = read_csv(path)
    assert list(rows[0]) == ["id", "column 0", "column 1", "column 1 (value)", "column 2", "flags"]
    assert len(rows) == len(HOSTILE)
    for row, line in zip(rows, HOSTILE_TABLE.lines, strict=True):
        check_csv(row, line)
    assert [row["column 0"] for row in rows if row["column 0"][:1] == "'"] == [
        '\'=HYPERLINK("http://example.org")',
        "'+1+1",
        "'-2-3",
        "'@SUM(A1)",
        "'\t=1",
        "'\r=1",
    ]


def check_csv(row: dict[str, str], line: Line) -> None:
    def kept(text: str) -> str:
        text = text.encode("utf-8", "backslashreplace").decode()
        number = re.fullmatch(r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII)
        return f"'{text}" if text[:1] in set("=+-@\t\r\n＝＋－＠") and not number else text

    assert row["id"] == line.id
    assert [row["column 0"], row["column 1"], row["column 2"]] == [kept(cell.text) for cell in line.cells]
    assert float(row["column 1 (value)"]) == line.cells[1].order
    assert row["flags"] == kept(shown(line)[-1])


def test_hostile_json_comes_back(tmp_path: Path) -> None:
    (path,) = export.write([HOSTILE_TABLE, table([["a"]], "other")], "json", tmp_path)
    assert path == tmp_path / "report.json"
    first, second = json.loads(path.read_bytes())
    assert first["title"] == HOSTILE_TABLE.title
    assert first["columns"][1] == {"title": "column 1", "numeric": True, "help": ""}
    for told, line in zip(first["lines"], HOSTILE_TABLE.lines, strict=True):
        assert told["id"] == line.id
        assert told["cells"] == [{"text": cell.text, "value": cell.order} for cell in line.cells]
        assert told["flags"] == [{"kind": flag.kind, "why": flag.why} for flag in line.flags]
    assert second["lines"] == [{"id": "r/0", "cells": [{"text": "a", "value": None}], "flags": []}]


def test_hostile_markdown_is_text(tmp_path: Path) -> None:
    (path,) = export.write([HOSTILE_TABLE], "markdown", tmp_path)
    assert path == tmp_path / "report.md"
    check_markdown(path, HOSTILE_TABLE)
    # GitHub makes links of these without any brackets.
    written = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|www\.|\w@\w|[^`]@", written)


def check_markdown(path: Path, told: Table) -> None:
    (rows,) = read_markdown(path)
    assert rows[0] == [*(column.title for column in told.columns), "Flags"]
    assert len(rows) == 1 + len(told.lines)
    for row, line in zip(rows[1:], told.lines, strict=True):
        # Space at a cell's ends means nothing in a table.
        expected = [
            visible(text).encode("utf-8", "backslashreplace").decode().strip() for text in shown(line)
        ]
        assert row == expected


def test_hostile_latex_is_text(tmp_path: Path) -> None:
    (path,) = export.write([HOSTILE_TABLE], "latex", tmp_path)
    assert path == tmp_path / "report.tex"
    assert path.read_bytes().isascii()
    check_latex(path, HOSTILE_TABLE)


def check_latex(path: Path, told: Table) -> None:
    (rows,) = read_latex(path)
    for row, line in zip(rows[1:], told.lines, strict=True):
        assert row == [as_latex_shows(text) for text in shown(line)]


@once
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4))
def test_any_text_comes_back(tmp_path: Path, rows: list[tuple[str, str, str]]) -> None:
    told = table(rows)
    (csv_file,) = export.write([told], "csv", tmp_path)
    for row, line in zip(read_csv(csv_file), told.lines, strict=True):
        check_csv(row, line)
    (json_file,) = export.write([told], "json", tmp_path)
    assert [
        [cell["text"] for cell in line["cells"]] for line in json.loads(json_file.read_bytes())[0]["lines"]
    ] == [list(row) for row in rows]
    (markdown,) = export.write([told], "markdown", tmp_path)
    check_markdown(markdown, told)


@once
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
def test_any_text_is_harmless_in_latex(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    (path,) = export.write([table(rows)], "latex", tmp_path)
    (found,) = read_latex(path)
    assert [len(row) for row in found] == [3] * (1 + len(rows))
    for row, cells in zip(found[1:], rows, strict=True):
        ascii_only = [cell for cell in cells if cell.isascii()]
        assert [each for each, cell in zip(row, cells, strict=False) if cell.isascii()] == [
            visible(cell) for cell in ascii_only
        ]


# The published rows


def test_rows_of_each_table(tables: list[Table], tmp_path: Path) -> None:
    paths = export.write(tables, "csv", tmp_path / "csv")
    assert {path.stem: len(read_csv(path)) for path in paths} == COUNTS
    assert sum(COUNTS.values()) == 533
    (path,) = export.write(tables, "json", tmp_path)
    assert {told["name"]: len(told["lines"]) for told in json.loads(path.read_bytes())} == COUNTS
    (path,) = export.write(tables, "markdown", tmp_path)
    assert [len(rows) - 1 for rows in read_markdown(path)] == [COUNTS[told.name] for told in tables]
    (path,) = export.write(tables, "latex", tmp_path)
    assert [len(rows) - 1 for rows in read_latex(path)] == [COUNTS[told.name] for told in tables]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "csv",
        "report.json",
        "report.md",
        "report.tex",
    ]


def test_every_format_says_the_same(tables: list[Table], tmp_path: Path) -> None:
    files = {format: export.write(tables, format, tmp_path) for format in export.FORMATS}
    in_markdown, in_latex = read_markdown(files["markdown"][0]), read_latex(files["latex"][0])
    for place, told in enumerate(tables):
        expected = [shown(line) for line in told.lines]
        assert in_markdown[place][1:] == expected
        assert in_latex[place][1:] == expected


def test_figures_are_those_of_the_records(
    records: dict[str, Record], tables: list[Table], tmp_path: Path
) -> None:
    checked = 0
    for path in export.write(tables, "csv", tmp_path):
        for row in read_csv(path):
            metrics = records[row["id"]].metrics
            expected = {
                "Throughput": metrics.throughput and metrics.throughput.value,
                "Time to train (min)": metrics.time_to_train_min,
                "Latency (ms)": metrics.latency_ms and metrics.latency_ms.mean,
                "Average latency (ms)": metrics.latency_ms and metrics.latency_ms.mean,
                "Efficiency": metrics.efficiency and metrics.efficiency.value,
                "Throughput per watt": metrics.efficiency and metrics.efficiency.value,
                "Ratio": metrics.ratio,
                "Batch size": records[row["id"]].job.batch_size,
                "Accelerators": records[row["id"]].job.accelerators,
            }
            for title, value in expected.items():
                number = row.get(f"{title} (value)", "")
                if title in row and f"{title} (value)" in row:
                    assert (float(number) if number else None) == value
                    # The text says the same number, to the digits that it has.
                    said = re.match(r"[\d.,]+(e[+-]\d+)?", row[title])
                    assert bool(said) == (value is not None)
                    if said and value is not None:
                        assert float(said[0].replace(",", "")) == pytest.approx(value, rel=1e-2)
                        checked += 1
    assert checked > 1500


# Files


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown format 'markdow'; did you mean markdown\?"):
        export.write([], "markdow", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "A", "a\n", "a" * 200, "con.csv", "\u202ea"])
@pytest.mark.parametrize("format", export.FORMATS)
def test_no_name_leaves_the_folder(tmp_path: Path, name: str, format: str) -> None:
    with pytest.raises(CannotWriteError, match="cannot name the file"):
        export.write([table([["a"]], name)], format, tmp_path / "out")
    with pytest.raises(CannotWriteError, match="or names two"):
        export.write([table([["a"]]), table([["b"]])], format, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.md").symlink_to(victim)
    export.write([table([["a"]])], "markdown", out)
    assert victim.read_text() == "mine"
    assert not (out / "report.md").is_symlink()


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        CannotWriteError, match=r"^cannot write csv into .*file: it is a file; choose another"
    ):
        export.write([], "csv", tmp_path / "file")
    (tmp_path / "out" / "report.json").mkdir(parents=True)
    with pytest.raises(CannotWriteError, match="cannot write json into"):
        export.write([], "json", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.json"]


@pytest.mark.parametrize("format", export.FORMATS)
def test_no_tables(tmp_path: Path, format: str) -> None:
    paths = export.write([], format, tmp_path)
    assert len(paths) == (0 if format == "csv" else 1)


@pytest.mark.parametrize("format", export.FORMATS)
def test_many_lines_need_no_memory_of_their_own(tmp_path: Path, format: str) -> None:
    line = table([["some network", "1,234 ± 12 images/s", "published: a page, line 1"] * 4]).lines[0]
    told = Table("many", "page", "Many", "", tuple(Column(f"c{i}") for i in range(12)), (line,) * 2000)
    tracemalloc.start()
    try:
        paths = export.write([told], format, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(path.stat().st_size for path in paths) > 4 * 10**5
    assert peak < 2 * 10**5


def test_latex_compiles(tables: list[Table], tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    export.write([HOSTILE_TABLE, *tables], "latex", tmp_path)
    options = ["-interaction=nonstopmode", "-halt-on-error"] if compiler.endswith("pdflatex") else []
    done = subprocess.run(
        [compiler, *options, "report.tex"], cwd=tmp_path, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
    assert b"Missing character" not in done.stdout
