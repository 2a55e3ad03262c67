"""A chart: a Vega-Lite specification with the words that go with it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

#: Marks that stand for figures are drawn by units of this name (error bars and reference lines are not).
DATA = "data"
#: Finds these marks in a drawn SVG, each one figure: what `Chart.marks` counts.
SELECTOR = f'g.role-mark[class*=" {DATA}_"] > path'


@dataclass(frozen=True)
class Chart:
    """A figure of the report.

    `name` is safe in a file name, unique, and the same for the same kind of data. `description` is the text
    alternative. `spec` is Vega-Lite with its data in it. `marks` is how many figures it must show, and `note`
    says what was left out and why. `records` are the ids of the Records that it shows.
    """

    name: str
    page: str
    title: str
    description: str
    spec: Spec
    marks: int
    note: str = ""
    records: tuple[str, ...] = ()


def slug(parts: Iterable[str | None]) -> str:
    """Parts as one name of at most 120 characters that any file system takes; different parts, other name."""
    wanted = [part for part in parts if part]
    plain = [re.sub(r"[^a-z0-9.]+", "-", part.lower(), flags=re.ASCII).strip("-.") for part in wanted]
    name = "-".join(part for part in plain if part)
    # Spaces, underscores and slashes become dashes; whatever else is lost is made good by a digest.
    lost = any(re.search(r"[^a-z0-9. _/×%-]", part.lower()) for part in wanted)
    if not lost and len(name) <= 120 and all(plain):
        return name
    digest = hashlib.sha256("\0".join(wanted).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{name[:100].strip('-.')}-{digest}".lstrip("-")
