"""The sampler of host memory, on real processes."""

from __future__ import annotations

import subprocess
import sys
import time

from accelmark.measure.memory import HostMemory, resident_bytes

MIB = 2**20
# The child holds the memory until its input ends.
CHILD = "import sys; block = bytearray(b'x') * (200 * 2**20); print('ready', flush=True); sys.stdin.read()"


def parent_of(code: str) -> str:
    return f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"


def hold(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_sees_200_mib_in_a_child_and_keeps_them_as_the_peak() -> None:
    process = hold(parent_of(CHILD))
    with HostMemory(process.pid, interval_s=60) as memory:
        memory.take()
        process.communicate()
    assert resident_bytes(process.pid) == 0
    # Two interpreters come on top of the 200 MiB.
    assert 200 <= memory.peak_gib() * 1024 < 300


def test_sees_a_grandchild() -> None:
    process = hold(parent_of(parent_of(CHILD)))
    assert 200 * MIB <= resident_bytes(process.pid) < 300 * MIB
    process.communicate()


def test_the_thread_samples_by_itself() -> None:
    process = hold(CHILD)
    with HostMemory(process.pid, interval_s=0.01) as memory:
        deadline = time.monotonic() + 30
        while memory.peak_gib() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.communicate()
    assert memory.peak_gib() is not None
    assert memory.peak_gib() > 200 / 1024


def test_a_process_that_is_gone_has_no_peak() -> None:
    process = hold(CHILD)
    process.communicate()
    with HostMemory(process.pid) as memory:
        pass
    assert memory.peak_gib() is None
