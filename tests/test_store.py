"""Records on disk: whole or not there, readable one by one, and never a way into anything else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelmark.errors import CannotWriteError, UnreadableInputError
from accelmark.index import select
from accelmark.record import SCHEMA_VERSION, Record, Status
from accelmark.store import Problem, Store, file_name, read, read_file
from tests.records import record


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    original = record()
    path = Store(tmp_path / "r").write(original)
    assert read_file(path) == original
    assert read([tmp_path / "r"]).records == [original]


def test_writing_again_replaces(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(record())
    store.write(record(status=Status.NOISY))
    assert [r.status for r in read([tmp_path]).records] == [Status.NOISY]


@given(st.text(min_size=1, max_size=80))
def test_an_id_is_never_a_path(identity: str) -> None:
    name = file_name(identity)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*\.json", name)
    assert os.sep not in name


def test_ids_that_climb_stay_in_the_folder(tmp_path: Path) -> None:
    path = Store(tmp_path / "r").write(record("../../outside"))
    assert path.parent == tmp_path / "r"
    assert list(tmp_path.glob("*.json")) == []


def test_broken_files_are_named_with_their_line_and_the_others_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(record("good"))
    text = (tmp_path / "good.json").read_text()
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    (tmp_path / "hand.json").write_text(text.replace('"network": "resnet50-v1.5"', '"network": resnet'))
    (tmp_path / "wrong.json").write_text(text.replace('"status": "ok"', '"status": "fine"'))
    (tmp_path / "newer.json").write_text(
        text.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99').replace('"job"', '"work"')
    )
    (tmp_path / "other.json").write_text("[1, 2]")
    (tmp_path / "nan.json").write_text(re.sub(r'"value": [\d.]+', '"value": NaN', text))
    result = read([tmp_path])
    assert [r.id for r in result.records] == ["good"]
    problems = {problem.path.name: problem for problem in result.problems}
    assert set(problems) == {"cut.json", "hand.json", "wrong.json", "newer.json", "other.json", "nan.json"}
    line = next(i for i, row in enumerate(text.splitlines(), 1) if '"network"' in row)
    assert problems["hand.json"].line == line
    assert "not valid JSON" in problems["hand.json"].message
    assert problems["cut.json"].line == text[: len(text) // 2].count("\n") + 1
    status_line = next(i for i, row in enumerate(text.splitlines(), 1) if '"status"' in row)
    assert problems["wrong.json"].line == status_line
    assert "schema 99" in problems["newer.json"].message
    assert "upgrade" in problems["newer.json"].message


def test_an_unwritable_folder_is_one_sentence_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWriteError, match="choose another folder"):
        Store(tmp_path / "file" / "below").prepare()


def test_a_disk_that_is_really_full_is_one_sentence(tmp_path: Path) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a file system to fill")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("this container may not mount a file system to fill")
    try:
        (folder / "rest").write_bytes(b"0" * 32768)
        with pytest.raises(CannotWriteError, match="disk is full"):
            Store(folder).prepare()
        with pytest.raises(CannotWriteError, match="disk is full"):
            Store(folder).write(record())
        assert [path.name for path in folder.iterdir()] == ["rest"]
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(CannotWriteError, match="disk is full"):
        Store(tmp_path).prepare()
    with pytest.raises(CannotWriteError, match="disk is full"):
        Store(tmp_path).write(record())
    assert list(tmp_path.iterdir()) == []


def test_a_missing_path_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        read([tmp_path / "nowhere"])


def test_no_pickle_is_ever_loaded() -> None:
    sources = Path(__file__).resolve().parents[1] / "src"
    for path in sources.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bpickle\b|torch\.load\(|_object\(|allow_pickle=True|joblib", text), path


def test_the_index_gives_what_the_files_hold(tmp_path: Path) -> None:
    store = Store(tmp_path / "r")
    store.write_many(record(f"r{i:03d}", status=Status.NOISY if i % 3 else Status.OK) for i in range(30))
    (tmp_path / "r" / "bad.json").write_text("{")
    answer = select([tmp_path / "r"], limit=5)
    assert [r.id for r in answer.records] == [f"r{i:03d}" for i in range(25, 30)]
    assert answer.count == 30
    assert answer.statuses == {"noisy": 20, "ok": 10}
    assert [problem.path.name for problem in answer.problems] == ["bad.json"]
    assert answer.records[0].metrics == record().metrics
    assert select([tmp_path / "r"], status="ok").count == 10
    assert select([tmp_path / "r"], network="ncf").count == 0


def test_the_index_follows_changes(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    store = Store(folder)
    store.write(record("one"))
    assert select([folder]).statuses == {"ok": 1}
    store.write(record("one", status=Status.CRASHED, reasons=["gone"]))
    store.write(record("two"))
    assert select([folder]).statuses == {"crashed": 1, "ok": 1}
    (folder / "one.json").unlink()
    assert select([folder]).statuses == {"ok": 1}
    for cached in (tmp_path / "cache").rglob("*.parquet"):
        cached.write_bytes(b"broken")
    assert select([folder]).statuses == {"ok": 1}


def test_reading_is_the_same_in_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "r").write_many(record(f"r{i}") for i in range(10))
    monkeypatch.setattr("accelmark.index.MANY", 2)
    assert select([tmp_path / "r"]).count == 10


def test_a_problem_is_printed_harmlessly() -> None:
    assert "\x1b" not in str(Problem(Path("a\x1b[2J.json"), 3, "bad \x1b text"))


def test_schema_is_current() -> None:
    published = Path(__file__).resolve().parents[1] / "docs" / "record.schema.json"
    made = subprocess.run(
        [sys.executable, "-m", "accelmark.record"], capture_output=True, text=True, check=True
    ).stdout
    assert published.read_text() == made, "run: make schema"


def test_the_schema_accepts_what_is_written() -> None:
    import jsonschema

    from accelmark.record import json_schema

    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    validator.validate(record().model_dump(mode="json", exclude_none=True))
    assert isinstance(Record.model_validate(record().model_dump()), Record)
