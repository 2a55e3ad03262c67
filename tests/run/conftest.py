"""Running accelmark as a user does, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

USER_NETWORKS = Path(__file__).with_name("user_networks.py")

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "accelmark.cli.main", *words]


@pytest.fixture
def accelmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            command(*words), capture_output=True, text=True, timeout=timeout, check=False, cwd=tmp_path
        )
        assert "Traceback" not in result.stderr, result.stderr
        assert "Traceback" not in result.stdout, result.stdout
        return result

    return run


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The Records in a folder by network."""
    loaded = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {record["job"]["network"]: record for record in loaded}
