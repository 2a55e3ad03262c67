"""The report's folder: what is written over, what is not, and that nothing leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelmark.errors import CannotWriteError
from accelmark.report import folder


def test_a_new_folder_and_an_empty_one(tmp_path: Path) -> None:
    for name in ("new/deep", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        folder.prepare(tmp_path / name, force=False)
        assert (tmp_path / name / folder.MARKER).is_file()


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CannotWriteError, match="holds something that is no report"):
        folder.prepare(tmp_path, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    folder.prepare(tmp_path, force=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_report_is_made_anew(tmp_path: Path) -> None:
    folder.prepare(tmp_path, force=False)
    (tmp_path / "old.html").write_text("old")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.js").write_text("old")
    (tmp_path / "notes").mkdir()
    folder.prepare(tmp_path, force=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.MARKER, "notes"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "keep.js").write_text("keep")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(CannotWriteError, match="is no folder"):
        folder.prepare(link, force=True)
    site = tmp_path / "site"
    folder.prepare(site, force=False)
    (site / "data").symlink_to(target)
    folder.prepare(site, force=False)
    assert (target / "keep.js").read_text() == "keep"


def test_a_file_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWriteError, match="is no folder"):
        folder.prepare(tmp_path / "file", force=False)
    with pytest.raises(CannotWriteError, match="choose another folder"):
        folder.prepare(tmp_path / "file" / "below", force=False)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200, "a\0b"])
def test_names_that_are_no_plain_file_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no plain file name"):
        folder.write(tmp_path, name, b"")
