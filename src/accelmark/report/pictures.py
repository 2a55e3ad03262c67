"""Charts as files, drawn by processes of their own while the parent writes the rest of the site.

Drawing takes a quarter of a second a chart, all of it in a JavaScript engine that holds Python's lock, so
threads would not help. The processes are started as modules and not by `multiprocessing`: that would run the
caller's script again, or fork a process that has threads.

The drawing opens a font's file anew for each letter, which takes two thirds of the time, unless the font is
the one that vl-convert holds in its memory. So the processes see no font of the system's, but for charts with
letters that vl-convert's has not.

    python -m accelmark.report.pictures CHARTS FOLDER      # CHARTS: a JSON list of [name, specification]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from accelmark.errors import AccelmarkError, CannotWriteError
from accelmark.report.folder import plain
from accelmark.text import safe

if TYPE_CHECKING:
    from accelmark.report.charts import Chart

#: Charts that are worth a process more: each takes a second or two to start.
CHARTS_A_PROCESS = 8
MAX_PROCESSES = 8
#: The alphabets of Liberation Sans: Latin, Greek, Cyrillic; and signs that the charts themselves write.
_LETTERS = re.compile(r"[\u0020-\u024f\u0370-\u04ff\u2010-\u2026\u203a\u00d7\u2192\u2212\u2264\u2265]*")
_NO_FONTS = '<?xml version="1.0"?><fontconfig><dir>{}</dir></fontconfig>'
#: How a process says that the disk did not take its files.
_CANNOT_WRITE = 3


@contextmanager
def drawing(charts: Sequence[Chart], folder: Path) -> Iterator[None]:
    """Draw all charts as SVG and PNG into the folder during the block; they are there when it ends.

    A `CannotWriteError` if the folder does not take them, an `AccelmarkError` if one cannot be drawn.
    """
    for chart in charts:
        plain(chart.name)
    drawn = {chart.name: json.dumps([chart.name, chart.spec], ensure_ascii=False) for chart in charts}
    common = [text for text in drawn.values() if _LETTERS.fullmatch(text)]
    others = [text for text in drawn.values() if not _LETTERS.fullmatch(text)]
    count = min(cpu_count() or 1, MAX_PROCESSES, -(-len(common) // CHARTS_A_PROCESS))
    with tempfile.TemporaryDirectory(prefix="accelmark-") as temporary:
        base = Path(temporary)
        # Every count-th chart: neighbours are alike, and so are the times that they take.
        workers = [
            _Worker(common[place::count], base / str(place), folder, _no_fonts(base))
            for place in range(count)
        ]
        if others:
            workers.append(_Worker(others, base / "others", folder, {}))
        try:
            yield
            for worker in workers:
                worker.end()
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()


def _no_fonts(folder: Path) -> dict[str, str]:
    """The environment of a process that sees no fonts of the system's, where that uses fontconfig."""
    empty, file = folder / "fonts", folder / "fonts.conf"
    empty.mkdir(exist_ok=True)
    file.write_text(_NO_FONTS.format(escape(str(empty))), encoding="utf-8")
    return {"FONTCONFIG_FILE": str(file)}


class _Worker:
    """A process that draws some of the charts, given as JSON; `base` is where its files begin."""

    def __init__(
        self, charts: Sequence[str], base: Path, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._folder, self._errors = folder, base.with_suffix(".txt")
        wanted = base.with_suffix(".json")
        content = f"[{','.join(charts)}]"
        # Half of a surrogate pair, which no drawing takes, becomes a question mark.
        wanted.write_bytes(content.encode("utf-8", "replace"))
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "accelmark.report.pictures", str(wanted), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **environment},
            )

    def end(self) -> None:
        """Wait until all charts are there; say which error there was if they are not."""
        code = self.process.wait()
        lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
        # Errors of the JavaScript engine end with where in the library they were.
        told = [line for line in lines if "Error" in line] or lines or [f"exit code {code}"]
        last = safe(told[-1])
        if code == _CANNOT_WRITE:
            raise CannotWriteError(f"cannot write charts into {safe(self._folder)}: {last}; free some space.")
        if code != 0:
            raise AccelmarkError(
                f"a chart cannot be drawn: {last}; this is a fault of accelmark's, report it."
            )


def main(file: Path, folder: Path) -> int:
    """Draw the charts of a file into a folder; the exit code."""
    from accelmark.report.charts import Chart, picture, to_svg

    for name, spec in json.loads(file.read_text(encoding="utf-8")):
        svg = to_svg(Chart(name=name, page="", title="", description="", spec=spec, marks=0))
        png = picture(svg)
        try:
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
            (folder / f"{name}.png").write_bytes(png)
        except OSError as error:
            print(error.strerror, file=sys.stderr)
            return _CANNOT_WRITE
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
