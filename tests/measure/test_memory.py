"""The kernel's high-water mark of host memory, on a real process."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
from accelmark.measure.memory import HostMemory
with HostMemory() as first:
    block = bytearray(b"x") * (300 * 2**20)
    del block
with HostMemory() as second:
    block = bytearray(b"x") * (100 * 2**20)
    del block
with HostMemory() as third:
    pass
print(*(memory.peak_gib() * 1024 for memory in (first, second, third)))
"""


def test_a_short_peak_is_seen_and_an_earlier_one_is_not() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    first, second, third = map(float, result.stdout.split())
    assert first - third == pytest.approx(300, abs=10)
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux resets the mark")
    assert second - third == pytest.approx(100, abs=10)
