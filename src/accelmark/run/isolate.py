"""One worker process, watched from outside: its end, whatever it was, becomes a Record.

The parent starts the worker (or `torchrun`, which starts one per rank), reads the windows that it reports,
and tells how it ended: a Record, a known failure, memory, a signal, an exit code, or too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
from pydantic import ValidationError

from accelmark import conclude
from accelmark.measure.machine import memory_available_gib
from accelmark.record import Metrics, Record, Samples, Source, Status, Window
from accelmark.run.request import LOG, PROGRESS, RECORD, REQUEST, Failure, Request, ranks

#: Seconds between looks at a worker. A look costs the machine next to nothing; more of them would not.
LOOK_S = 0.5
#: Host memory left at which a worker is ended before the system starts to swap or kill.
LAST_RESERVE_GIB = 0.4
LOG_LINES = 40
#: Ends that say all in their reason.
_NO_LOG = (Status.UNSUPPORTED, Status.INTERRUPTED)

OnWindow = Callable[[Window, bool], None]


def run(request: Request, unit: str, on_window: OnWindow = lambda window, warm: None) -> Record:
    """Run one worker to its end and return its Record, whatever happens.

    Ctrl-C ends the worker and gives an `interrupted` Record. `unit` is the throughput's unit for a Record
    that has to be made of the windows of a worker that failed.
    """
    with _folder() as folder:
        (folder / REQUEST).write_text(request.model_dump_json(), encoding="utf-8")
        started_at, start = datetime.now(UTC), time.monotonic()
        killed_by_memory = _oom_kills()
        with (folder / LOG).open("wb") as log:
            process = subprocess.Popen(
                _command(request, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A worker that is ended by a signal of its own making says where.
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
            )
            windows = _Windows(folder / PROGRESS, on_window)
            why = _watch(process, windows, request)
        windows.read()
        record = _read_record(folder / RECORD)
        if record is not None and why is None:
            return record
        status, reason = why or _explain(process.returncode, folder, _oom_kills() - killed_by_memory)
        return Record(
            id=request.id,
            source=Source.MEASURED,
            status=status,
            reasons=[reason],
            started_at=started_at,
            duration_s=time.monotonic() - start,
            command=request.command,
            job=request.job,
            settings=request.settings,
            system=request.system,
            software=request.software,
            metrics=Metrics(throughput=conclude.throughput(windows.measured, unit)),
            samples=Samples(windows=windows.measured, warm_up=windows.warm_up),
            log_tail=None if status in _NO_LOG else _tail(folder / LOG),
        )


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="accelmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(request: Request, folder: Path) -> list[str]:
    worker = ["-m", "accelmark.run.worker", str(folder)]
    if ranks(request.job) == 1:
        return [sys.executable, *worker]
    # The address is given because a host name that does not resolve would stop torchrun for minutes.
    return [
        sys.executable,
        "-m",
        "accelmark.run.ranks",
        f"--nproc-per-node={ranks(request.job)}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
        "--max-restarts=0",
        *worker,
    ]


class _Windows:
    """The windows that a worker has reported so far."""

    def __init__(self, path: Path, on_window: OnWindow) -> None:
        self.path, self.on_window = path, on_window
        self.warm_up: list[Window] = []
        self.measured: list[Window] = []
        self._position = 0

    def read(self) -> None:
        """Take in what was reported since the last look; a line cut off by a crash is left."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                entry = json.loads(line)
                window = Window.model_validate(entry["window"])
                (self.warm_up if entry["warm_up"] else self.measured).append(window)
                self.on_window(window, entry["warm_up"])


def _watch(
    process: subprocess.Popen[bytes], windows: _Windows, request: Request
) -> tuple[Status, str] | None:
    """Wait for the worker's end; the status and reason if the parent had to end it."""
    limit = request.settings.timeout_s + request.settings.process_budget_s()
    deadline = time.monotonic() + limit
    try:
        while True:
            try:
                process.wait(timeout=LOOK_S)
                return None
            except subprocess.TimeoutExpired:
                windows.read()
            if time.monotonic() > deadline:
                return (
                    Status.TIMED_OUT,
                    f"ended after {limit:.0f} s without a result; give a longer --timeout if it is only slow",
                )
            if memory_available_gib() < LAST_RESERVE_GIB:
                return (
                    Status.OUT_OF_MEMORY,
                    f"ended because less than {LAST_RESERVE_GIB} GiB of host memory was left",
                )
    except KeyboardInterrupt:
        return Status.INTERRUPTED, "interrupted by the user; --resume measures what is missing"
    finally:
        end_tree(process)


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything that it started, at once; torchrun's ranks live in other sessions."""
    try:
        root = psutil.Process(process.pid)
        tree = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        tree = []
    for member in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(tree, timeout=10)
    process.wait()


def _read_record(path: Path) -> Record | None:
    try:
        return Record.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _explain(returncode: int, folder: Path, oom_kills: int) -> tuple[Status, str]:
    """Status and reason of a worker that ended by itself without a Record."""
    failures = [
        Failure.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("failure-*.json"))
    ]
    if failures:
        return failures[0].status, failures[0].reason
    log = _tail(folder / LOG)
    number = -returncode if returncode < 0 else _rank_signal(log)
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if number == signal.SIGKILL and oom_kills > 0:
            return Status.OUT_OF_MEMORY, "the system's out-of-memory killer ended the worker"
        return Status.CRASHED, f"the worker was ended by {name}"
    last = _last_error(log)
    return Status.CRASHED, f"the worker ended with exit code {returncode}" + (f": {last}" if last else "")


def _rank_signal(log: str) -> int | None:
    """The signal that ended a rank, as torchrun reports it in its last words."""
    match = re.search(r"exitcode\s*:\s*-(\d+)", log)
    return int(match[1]) if match else None


def _last_error(log: str) -> str:
    """The last line that looks like an exception, or the last line at all."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.match(r"(\[rank\d+\]:\s*)?[\w.]*(Error|Exception|Interrupt)\b", line)
    ]
    return (errors or lines or [""])[-1][:300]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 16384))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-LOG_LINES:])


def _oom_kills() -> int:
    """How often the kernel has killed for memory since boot, on Linux; 0 elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
