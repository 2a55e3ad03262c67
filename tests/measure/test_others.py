"""The CPU time of others: a known load in another process must show as itself, one's own must not."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from accelmark.measure.others import OtherProcesses


def test_own_work_is_not_others_work() -> None:
    others = OtherProcesses()
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    busy, own, capacity = others.stop()
    assert 0.4 < own < 0.8
    assert busy >= own - 0.1
    assert capacity >= 0.4 * (psutil.cpu_count() or 1)


def test_a_busy_process_is_seen() -> None:
    others = OtherProcesses()
    burn = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    busy, own, _ = others.stop()
    assert busy - own > 0.5
