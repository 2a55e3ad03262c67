"""Which networks of this build the pages' entries are: a page has several entries for one network's uses."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Use:
    """A network, and which of its tasks an entry means, if it has several."""

    network: str
    task: str | None = None


@functools.cache
def entries() -> Mapping[str, Sequence[Use]]:
    """The networks of each entry: several where it is an average, or a service made of them."""
    text = resources.files("accelmark.published").joinpath("entries.toml").read_text(encoding="utf-8")
    return {name: [_use(use) for use in uses] for name, uses in tomllib.loads(text).items()}


def of(network: str) -> list[str]:
    """The entries that a network is of, by their names."""
    return [name for name, uses in entries().items() if network in {use.network for use in uses}]


def _use(text: str) -> Use:
    network, _, task = text.partition(":")
    return Use(network, task or None)
