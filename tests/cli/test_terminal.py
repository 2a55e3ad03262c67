"""What a person at a terminal sees of Records and comparisons, at several widths; nothing of it in a pipe."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
import typer
from rich.cells import cell_len

from accelmark import conclude
from accelmark.cli.compare import compare
from accelmark.cli.list import list_
from accelmark.cli.show import show
from accelmark.record import Metrics, Samples, Status
from accelmark.store import Store
from accelmark.system import Accelerator, System
from tests.cli.test_compare import good
from tests.cli.test_published import good as list_and_show
from tests.records import record, windows

app = typer.Typer()
for name, verb in (("show", show), ("compare", compare), ("list", list_)):
    app.command(name)(verb)

WIDTHS = (40, 80, 120)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BLOCKS = set("▏▎▍▌▋▊▉█▐░")


def on_terminal(width: int, *words: object, **environment: str) -> str:
    """What `accelmark` writes to a terminal of this width."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "accelmark.cli.main", *map(str, words)],
        dimensions=(30, width),
        encoding="utf-8",
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        | environment,
    )
    child.expect(pexpect.EOF)
    text = str(child.before)
    child.close()
    assert child.exitstatus == 0, text
    return text.replace("\r\n", "\n")


class Terminal(io.StringIO):
    """A standard output that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Calls a verb with a terminal of a width, without a process of its own."""
    monkeypatch.setenv("TERM", "xterm-256color")

    def call(width: int, *words: object) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Terminal())
            app([str(word) for word in words], standalone_mode=False)
            return str(sys.stdout.getvalue())  # type: ignore[attr-defined]

    return call


def plain(text: str) -> str:
    """Without the escapes of styles; any other is not ours."""
    text = ESCAPE.sub("", text)
    assert "\x1b" not in text
    return text


def fits(text: str, width: int) -> str:
    text = plain(text)
    too_long = [line for line in text.splitlines() if cell_len(line) > width]
    assert not too_long
    return text


def keep(
    folder: Path, name: str, rate: float, system: str = "A", spread: float = 0.02, **job: object
) -> None:
    found = [
        w
        for p, r in enumerate((rate * (1 - spread), rate, rate * (1 + spread)))
        for w in windows(r, process=p)
    ]
    base = record(name)
    Store(folder).write(
        base.replace(
            job=base.job.model_copy(update=job),
            system=System(name=f"machine with a long name: {system}", accelerator=Accelerator(name=system)),
            metrics=Metrics(throughput=conclude.throughput(found, "images/s")),
            samples=Samples(windows=found),
        )
    )


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    keep(ours, "1", 123456.7, "Board One")
    keep(ours, "2", 61728.35, "Board Two", precision="bf16")
    keep(ours, "3", 4321.0, "Board One", network="vgg16", size="tiny")
    keep(theirs, "4", 98765.4, "Board Four")
    Store(theirs).write(record("5", status=Status.CRASHED, reasons=["the worker ended by signal 11"]))
    return ours, theirs


def figures(text: str) -> set[str]:
    """Figures with their intervals, each whole."""
    return set(re.findall(r"[\d.,]+ ± [\d.,]+|[\d.,]+ to [\d.,]+", text))


@pytest.mark.parametrize("width", WIDTHS)
def test_records_fit_the_terminal(folders: tuple[Path, Path], width: int) -> None:
    piped = list_and_show("show", folders[0])
    assert len(figures(piped)) == 3
    assert not BLOCKS & set(piped)
    text = fits(on_terminal(width, "show", folders[0]), width)
    assert figures(text) == figures(piped)
    assert ("██████████" in text) == (width != 80)
    assert "Traceback" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_pairs_fit_the_terminal(terminal: Callable[..., str], folders: tuple[Path, Path], width: int) -> None:
    words = ("compare", folders[0], "--with", folders[1], "--allow", "precision")
    text = fits(terminal(width, *words), width)
    piped = good(*words)
    ratios = set(re.findall(r"\d\.\d{3}x|\d\.\d{3} to \d\.\d{3}", piped))
    assert len(ratios) >= 5
    # A sentence is folded between words, in the middle of an interval too; a cell of the table is not.
    assert ratios <= set(re.findall(r"\d\.\d{3}x|\d\.\d{3} to \d\.\d{3}", " ".join(text.split())))
    assert "│" in text
    assert BLOCKS & set(text)
    assert "bars end at" in text
    assert not {"│", *BLOCKS} & set(piped)
    # Remarks stand below, once each.
    assert " 1  allowed" in text or " 1  accelerator" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_a_study_fits_the_terminal(terminal: Callable[..., str], width: int) -> None:
    text = fits(terminal(width, "compare", "--published", "lambda-2021-08"), width)
    for ratio in ("0.92x", "1.01x", "1.13x", "1.14x", "1.34x", "1.36x", "1.33x"):
        assert re.search(rf"(?<![\d.]){re.escape(ratio)}", text)
    assert text.count("│") == (8 + 8 if width == 40 else 8 + 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_published_rows_fit_the_terminal(terminal: Callable[..., str], width: int) -> None:
    words = ("list", "published", "--network", "gnmt-v2")
    text = fits(terminal(width, *words), width)
    rows = list_and_show(*words).splitlines()[1:-2]
    assert len(rows) > 5
    for line in rows:
        found = re.search(r"[\d.,]+ (?:min|\w+/s)", line)
        assert found
        assert found[0] in text


def test_what_is_left_out_is_said_in_its_order(
    terminal: Callable[..., str], folders: tuple[Path, Path]
) -> None:
    for width, missing in ((100, "system"), (70, "system, n, of largest")):
        text = fits(terminal(width, "show", folders[0]), width)
        assert f"no room here for {missing}" in " ".join(text.split())


def test_dumb_terminals_and_no_colour(folders: tuple[Path, Path]) -> None:
    dumb = on_terminal(80, "show", folders[0], TERM="dumb")
    assert "\x1b" not in dumb
    assert not BLOCKS & set(dumb)
    assert fits(dumb, 80)
    colourless = on_terminal(120, "show", folders[0], NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9|10)\d[;m]", colourless)
    assert BLOCKS & set(colourless)


def test_an_encoding_without_blocks_shows_none(folders: tuple[Path, Path]) -> None:
    text = on_terminal(120, "show", folders[0], PYTHONIOENCODING="ascii:replace")
    assert not BLOCKS & set(text)


HOSTILE = "\x1b[31m\x1b]0;title\x07\u202eevil\u2066 [bold red]漢字漢字漢字漢字漢字 :smile: " + "w" * 90


@pytest.mark.parametrize("width", WIDTHS)
def test_names_cannot_steer_the_terminal(terminal: Callable[..., str], tmp_path: Path, width: int) -> None:
    keep(tmp_path / "a", "1", 1234.5, "B" + HOSTILE, network="n" + HOSTILE, precision="p\x1b[2J")
    keep(tmp_path / "a", "2", 2345.6, "C", network="n" + HOSTILE)
    keep(tmp_path / "b", "e" + HOSTILE, 1000.0, "D" + HOSTILE, network="n" + HOSTILE)
    for words in (
        ("show", tmp_path / "a"),
        ("compare", tmp_path / "a", "--with", tmp_path / "b", "--allow", "precision"),
        ("compare", tmp_path / "a", tmp_path / "b", "--allow", "precision"),
    ):
        text = terminal(width, *words)
        seen = fits(text, width)
        assert not {"\x07", "\u202e", "\u2066"} & set(text)
        assert "\x1b[31m" not in text
        assert "\x1b[2J" not in text
        assert "[bold" in seen
        assert ":smile:" in seen.replace("\n", "").replace(" ", "") or "…" in seen
