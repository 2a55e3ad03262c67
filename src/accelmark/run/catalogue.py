"""Networks in files of the user's own, described in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from accelmark.errors import UnreadableInputError
from accelmark.networks.registry import CatalogEntry

_ENTRIES = TypeAdapter(list[CatalogEntry])


def describe(path: Path) -> dict[str, CatalogEntry]:
    """The networks that a file declares; the file is executed, but never in this process."""
    if not path.is_file():
        raise UnreadableInputError(f"{path} does not exist; give a file that declares a network, or a name.")
    result = subprocess.run(
        [sys.executable, "-m", "accelmark.networks.catalog", "--file", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        entries = _ENTRIES.validate_json(result.stdout)
    except ValidationError:
        last = (result.stderr.strip().splitlines() or ["it prints nothing"])[-1]
        raise UnreadableInputError(f"{path} declares no network: {last}") from None
    return {entry.name: entry for entry in entries}
