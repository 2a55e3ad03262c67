"""Data of the site as files: JSON within scripts, which are all that a page opened from the disk may load."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic_core import PydanticSerializationError, to_json

from accelmark.report.folder import plain


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_start(text: str, limit: int) -> str:
    """The text, or its end: that of a log is what tells what happened."""
    return text if len(text) <= limit else f"…{text[len(text) - limit + 1 :]}"


def as_json(value: object) -> str:
    """JSON in ASCII only: U+2028 ends a line of JavaScript for some, and lone surrogates fit no encoding."""
    try:
        # Five times as fast; what it cannot encode, or leaves in other characters, takes the long way.
        text = to_json(value).decode("ascii")
    except (UnicodeDecodeError, PydanticSerializationError):
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text


def write_script(folder: Path, name: str, content: str) -> int:
    """Write JSON as a script that hands it to the page (`report.js: load`); its size in bytes."""
    return write_text(folder, f"{name}.js", f'accelmark("{name}",{content});\n')


def write_text(folder: Path, name: str, content: str) -> int:
    """Write a text of a plain name into the folder; its size in bytes."""
    data = content.encode("utf-8", "replace")
    (folder / plain(name)).write_bytes(data)
    return len(data)
