"""What is known of boards, networks and rule books besides their names: the TOML files' other fields.

`None` means that nobody has written it down here, and that nothing may be concluded from it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from accelmark import names

_PROFILE = re.compile(r"([1-9])g\.[1-9][0-9]{0,2}gb(?:\+me)?", re.ASCII)
_FRACTION = re.compile(r"1/([1-9][0-9]?)", re.ASCII)


@dataclass(frozen=True)
class Board:
    """A board's limits. Peaks are TFLOP/s (TOP/s for integers) by precision, by a source of date `since`."""

    name: str
    source: str
    since: date
    power_w: float | None = None
    slices: int | None = None
    dense: Mapping[str, float] = field(default_factory=dict)
    sparse: Mapping[str, float] = field(default_factory=dict)

    def share(self, partition: str | None) -> float:
        """The most of the board that one instance can have; all of it where the partition is not known."""
        return share(self.name, partition) or 1.0


@dataclass(frozen=True)
class Network:
    """A network's size. `family` holds networks built alike, of which more parameters mean more work."""

    name: str
    parameters: int | None = None
    family: str | None = None
    sparse: bool = False
    gflop: float | Mapping[str, float] | None = None

    @property
    def by_length(self) -> bool:
        """Whether its arithmetic depends on the length of its sequences."""
        return isinstance(self.gflop, Mapping)

    def forward_gflop(self, sequence_length: int | None) -> float | None:
        """Arithmetic of one forward pass of one unit of the batch axis, a multiply-add counted as two."""
        if isinstance(self.gflop, Mapping):
            return self.gflop.get(str(sequence_length))
        return self.gflop


@dataclass(frozen=True)
class Target:
    """What a rule book asks of a network: the reference's quality, and the bounds that it allows."""

    reference: float
    bounds: tuple[float, ...]


@functools.lru_cache(maxsize=1024)
def board(name: str) -> Board | None:
    """What is known of a board, by any of its names."""
    canonical = names.board(name)
    entry: Mapping[str, Any] | None = names.read("boards").get(canonical)
    if entry is None:
        return None
    return Board(
        name=canonical,
        source=entry["source"],
        since=entry["since"],
        power_w=entry.get("power_w"),
        slices=entry.get("slices"),
        dense=entry.get("peak", {}),
        sparse=entry.get("sparse", {}),
    )


def share(board_name: str, partition: str | None) -> float | None:
    """The share of a board that one instance has; `None` for a partition whose size is not known.

    NVIDIA's profiles count slices: `2g.10gb` has two of a board's seven, or of an A30's four.
    """
    if partition is None:
        return 1.0
    if fraction := _FRACTION.fullmatch(partition):
        return 1 / int(fraction[1])
    known = board(board_name)
    profile = _PROFILE.fullmatch(partition.lower())
    if profile is None or known is None or known.slices is None:
        return None
    return min(1.0, int(profile[1]) / known.slices)


@functools.lru_cache(maxsize=1024)
def network(name: str) -> Network | None:
    """What is known of a network, by its canonical name."""
    entry: Mapping[str, Any] | None = names.read("networks").get(name)
    if entry is None:
        return None
    return Network(
        name=name,
        parameters=entry.get("parameters"),
        family=entry.get("family"),
        sparse=entry.get("sparse", False),
        gflop=entry.get("gflop"),
    )


def target(rules: str, network_name: str, metric: str) -> Target | None:
    """The target of a rule book in the metric's own scale: percent where its name ends in `, %`."""
    plain, percent = _scale(metric)
    found = _targets().get((rules, network_name, plain))
    if found is None:
        return None
    known_in_percent, known = found
    factor = 1.0 if percent == known_in_percent else 100.0 if percent else 0.01
    return Target(known.reference * factor, tuple(bound * factor for bound in known.bounds))


def latency_bound_ms(rules: str, network_name: str) -> float | None:
    """Within which 99 % of a rule book's server scenario has to be answered, in milliseconds."""
    for entry in names.read("mlperf")["latency_bound"]:
        if entry["rules"] == rules:
            bound: float | None = entry["milliseconds"].get(network_name)
            return bound
    return None


def _scale(metric: str) -> tuple[str, bool]:
    return metric.removesuffix(", %"), metric.endswith(", %")


@functools.cache
def _targets() -> Mapping[tuple[str, str, str], tuple[bool, Target]]:
    found = {}
    for entry in names.read("mlperf")["target"]:
        metric, percent = _scale(entry["metric"])
        reference = entry["reference"]
        whole = (100 if percent else 1) if entry.get("errors") else 0
        # Of errors, the share is of what is right: 99 % of (100 % - WER).
        bounds = tuple(whole + (reference - whole) * share / 100 for share in entry.get("shares", ()))
        found[entry["rules"], entry["network"], metric] = (percent, Target(reference, bounds))
    return found
