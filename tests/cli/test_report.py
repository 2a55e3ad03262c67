"""`accelmark report`, as a user calls it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from accelmark.cli.report import report
from accelmark.errors import CannotWriteError, UnreadableInputError, UsageError
from accelmark.report import record_pages
from accelmark.report.site import views
from accelmark.store import Store
from tests.records import record

app = typer.Typer()
app.command("report")(report)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    Store(tmp_path / "results").write_many([record("one"), record("two")])
    return tmp_path / "results"


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_site_of_ones_own_records(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    result = call(results, "--out", out)
    assert result.exception is None, result.exception
    assert f"2 Records in {out}: open {out / 'index.html'}" in result.stdout
    assert {"index.html", "training.html", "systems.html", "method.html", "record.html"} <= {
        path.name for path in out.iterdir()
    }
    # Made anew, without asking, because it is a report of ours.
    assert call(results, "--out", out).exception is None


def test_tables_for_other_programs(results: Path, tmp_path: Path) -> None:
    for format, name in (("json", "report.json"), ("markdown", "report.md"), ("latex", "report.tex")):
        out = tmp_path / format
        assert call(results, "--format", format, "--out", out).exception is None
        assert (out / name).is_file()
    tables = json.loads((tmp_path / "json" / "report.json").read_text())
    assert "one" in json.dumps(tables)
    assert call(results, "--format", "csv", "--out", tmp_path / "csv").exception is None
    rows = list(csv.reader((tmp_path / "csv" / "training-one.csv").open(newline="")))
    assert [row[0] for row in rows[1:]] == ["one", "two"]


def test_charts_alone(tmp_path: Path) -> None:
    out = tmp_path / "charts"
    result = call("--with", "lambda-2021-08", "--format", "png", "--out", out)
    assert result.exception is None, result.exception
    pictures = list(out.glob("*.png"))
    assert f"{len(pictures)} charts written to" in result.stdout
    assert pictures
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_wrong_words_are_one_sentence(results: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "empty").mkdir()
    for words, kind, message in (
        ((), UsageError, "give a folder of Records"),
        ((results, "--format", "pdf"), UsageError, "unknown format 'pdf'"),
        ((results, "--baseline", "RTX 9999"), UsageError, "unknown system"),
        ((results, "--allow", "colour"), UsageError, "no condition"),
        ((tmp_path / "none",), UnreadableInputError, "does not exist"),
        ((tmp_path / "empty",), UnreadableInputError, "holds no Record"),
        ((results, "--out", tmp_path / "full"), CannotWriteError, "no report of accelmark"),
    ):
        result = call(*words, *(() if "--out" in words else ("--out", tmp_path / "out")))
        assert isinstance(result.exception, kind), (words, result.exception)
        assert message in str(result.exception)
        assert not (tmp_path / "out").exists(), words
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_several_processes_write_what_one_would(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(str(path) for path in results.iterdir())
    others = [record("three"), record("two")]

    def written(folder: Path) -> dict[str, Any]:
        folder.mkdir()
        with record_pages.writing(paths, others, {"one": ["error: why"]}, folder) as places:
            where = list(places)
        assert [identity for identity, _ in where] == ["one", "two", "three", "two"]
        record_pages.write_index(where, folder)
        return {identity: _content(folder, part)[identity] for identity, part in reversed(where)}

    alone = written(tmp_path / "alone")
    assert alone["one"] == json.loads(
        record_pages.text(next(views([record("one")], {"one": ["error: why"]})))
    )
    assert alone["one"]["flags"] == [["doubtful", "error: why"]]
    monkeypatch.setattr(record_pages, "MANY", 1)
    monkeypatch.setattr(record_pages, "CHUNK", 1)
    assert written(tmp_path / "shared") == alone
    names = {path.name for path in (tmp_path / "shared").iterdir()}
    assert names == {"records-0-0.js", "records-1-0.js", "records-others-0.js", "index-0.js"}


def _content(folder: Path, part: str) -> dict[str, Any]:
    text = (folder / f"records-{part}.js").read_text(encoding="ascii")
    records = json.loads(text.removeprefix(f'accelmark("records-{part}",').removesuffix(");\n"))
    return {each["id"]: each for each in records}
