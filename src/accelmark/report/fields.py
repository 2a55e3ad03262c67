"""Every field of a Record that says something, as a name and a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from accelmark.record import Record
from accelmark.text import safe

#: Shown elsewhere (raw samples as a chart, the log on its own), or of no interest to a reader.
ELSEWHERE = {"schema_version", "samples", "log_tail"}


def fields(record: Record) -> list[tuple[str, str]]:
    """Names are paths (`job.batch_size`); lists of objects are numbered. Texts are harmless."""
    content = record.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=ELSEWHERE)
    return [(safe(name), safe(value)) for name, value in _flat("", content)]


def _flat(prefix: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flat(f"{path}.", value)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for place, item in enumerate(value):
                yield from _flat(f"{path}[{place}].", item)
        elif value not in ([], {}):
            yield path, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
