"""What a person at a terminal sees while measuring and at the end."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect
import pytest

from tests.run.conftest import USER_NETWORKS, command


def test_a_bar_knows_what_is_left_and_a_table_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "110")
    words = command("run", str(USER_NETWORKS), "--network", "steady", "--time-budget", "4s")
    child = pexpect.spawn(
        words[0], words[1:], cwd=str(tmp_path), dimensions=(30, 110), encoding="utf-8", timeout=120
    )
    child.expect(pexpect.EOF)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(child.before))
    child.close()
    assert child.exitstatus == 0, text
    assert re.search(r"\d+ s left +steady fp32 batch 4 1x", text)
    assert re.search(r"warming up|/s\b", text)
    table = text[text.index("network ") :]
    row = r"steady +full +fp32 +4 +1 +[\d.,]+ ± [\d.,]+ +rows/s +\d+ in 1 +(ok|noisy|not_stationary)"
    assert re.search(row, table), table
    assert "Records: results" in table
    assert "Traceback" not in text
