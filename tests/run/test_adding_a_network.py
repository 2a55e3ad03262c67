"""The network of docs/adding-a-network.md is measured as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import Run, records

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-network.md"


def test_the_file_of_the_page_is_measured_and_learns(accelmark: Run, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "my_network.py").write_text(code, encoding="utf-8")
    result = accelmark("run", "./my_network.py", "--size", "tiny", "--time-budget", "2s", "--out", "r")
    assert result.returncode == 0, result.stderr
    record = records(tmp_path / "r")["my-lenet"]
    assert record["status"] in ("ok", "noisy", "not_stationary")
    assert record["metrics"]["throughput"]["unit"] == "images/s"
    # Two convolutions, of 1 and 4 channels, and three layers: counted by hand.
    assert record["metrics"]["parameters"] == 104 + 808 + 25 * 8 * 32 + 32 + 33 * 84 + 85 * 10
    assert record["metrics"]["loss_last"] < record["metrics"]["loss_first"]
