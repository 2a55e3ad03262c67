"""Charts as files, drawn by processes of their own while the parent writes the rest of the site.

Drawing takes a quarter of a second a chart, all of it in a JavaScript engine that holds Python's lock, so
threads would not help. The processes are started as modules and not by `multiprocessing`: that would run the
caller's script again, or fork a process that has threads.

    python -m accelmark.report.pictures CHARTS FOLDER      # CHARTS: a JSON list of [name, specification]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING

from accelmark.errors import AccelmarkError, CannotWriteError
from accelmark.report.folder import plain
from accelmark.text import safe

if TYPE_CHECKING:
    from accelmark.report.charts import Chart

#: Charts that are worth a process more: each takes a second or two to start.
CHARTS_A_PROCESS = 8
MAX_PROCESSES = 8
#: How a process says that the disk did not take its files.
_CANNOT_WRITE = 3


@contextmanager
def drawing(charts: Sequence[Chart], folder: Path) -> Iterator[None]:
    """Draw all charts as SVG and PNG into the folder during the block; they are there when it ends.

    A `CannotWriteError` if the folder does not take them, an `AccelmarkError` if one cannot be drawn.
    """
    for chart in charts:
        plain(chart.name)
    count = min(cpu_count() or 1, MAX_PROCESSES, -(-len(charts) // CHARTS_A_PROCESS))
    with tempfile.TemporaryDirectory(prefix="accelmark-") as temporary:
        # Every count-th chart: neighbours are alike, and so are the times that they take.
        workers = [
            _Worker(charts[place::count], Path(temporary) / str(place), folder) for place in range(count)
        ]
        try:
            yield
            for worker in workers:
                worker.end()
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()


class _Worker:
    """A process that draws some of the charts; `base` is where its files begin."""

    def __init__(self, charts: Sequence[Chart], base: Path, folder: Path) -> None:
        self._folder, self._errors = folder, base.with_suffix(".txt")
        wanted = base.with_suffix(".json")
        content = json.dumps([[chart.name, chart.spec] for chart in charts], ensure_ascii=False)
        # Half of a surrogate pair, which no drawing takes, becomes a question mark.
        wanted.write_bytes(content.encode("utf-8", "replace"))
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "accelmark.report.pictures", str(wanted), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
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
