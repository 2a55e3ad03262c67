"""The published tables, as data: each set is a list of Records like any other, with the study it served.

A set is a module named in `SETS`, imported only when it is asked for. Its `read()` gives the rows that the
page prints, each with the id `SET/LINE`. A set with a study has `figures()` too: what its ratios rest on.
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

from accelmark.errors import UsageError, unknown
from accelmark.record import Record, Source
from accelmark.text import safe

#: The word for all sets together on the command line.
ALL = "published"


@dataclass(frozen=True)
class Study:
    """How a publication draws its conclusions from its figures.

    Every throughput is divided by that of one accelerator of the `reference` (SYSTEM:PRECISION) with the
    same network; the quotients are averaged over each group of networks; and each numerator's average is
    divided by that of the reference's system at the same accelerators and precision. Groups name their
    networks as NETWORK@SIZE, as `accelmark.compare.study` reads them.
    """

    reference: str
    numerators: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedSet:
    """A publication whose figures are carried here, in `module`. `rows` is how many the page prints."""

    name: str
    title: str
    date: datetime.date
    rows: int
    module: str
    study: Study | None = None


SETS: Mapping[str, PublishedSet] = {
    entry.name: entry
    for entry in (
        PublishedSet(
            name="nvidia-2021-04",
            title="Data Center Deep Learning Product Performance",
            date=datetime.date(2021, 4, 21),
            rows=525,
            module="accelmark.published.nvidia_2021_04",
        ),
        PublishedSet(
            name="lambda-2021-08",
            title="RTX A6000 vs RTX 3090 Deep Learning Benchmarks",
            date=datetime.date(2021, 8, 9),
            rows=8,
            module="accelmark.published.lambda_2021_08",
            study=Study(
                reference="RTX 3090:32-bit",
                numerators=("RTX A6000",),
                groups={
                    "convnets": ("ssd300-resnet50@full", "resnet50-v1.5@full", "mask-rcnn-r50-fpn@full"),
                    "language models": (
                        "transformer-xl-base@full-softmax",
                        "transformer-xl-large@full-softmax",
                    ),
                },
            ),
        ),
    )
}


def entry(name: str) -> PublishedSet:
    """A set's description; an unknown name is a `UsageError` that says what was meant."""
    try:
        return SETS[name]
    except KeyError:
        raise unknown("published set", name, SETS) from None


def _module(name: str) -> ModuleType:
    return importlib.import_module(entry(name).module)


def load(name: str) -> list[Record]:
    """The rows that a published set's page prints, in its order; those of every set for `published`."""
    if name == ALL:
        return [record for each in SETS for record in load(each)]
    records: list[Record] = _module(name).read()
    return records


def figures(name: str) -> list[Record]:
    """The figures that a set's study rests on; none for a set without a study."""
    if entry(name).study is None:
        return []
    records: list[Record] = _module(name).figures()
    return records


def is_figure(record: Record) -> bool:
    """Whether a published Record is no row of a page, but a figure that a study rests on."""
    return record.source is Source.PUBLISHED and not record.id.rpartition("/")[2].isdecimal()


def is_id(text: str) -> bool:
    """Whether a text has the form of a published row's id or figure's: SET/..."""
    return text.partition("/")[0] in SETS and "/" in text


def find(identity: str) -> Record:
    """The published row or figure with this id; a `UsageError` if there is none."""
    name, _, place = identity.partition("/")
    rows = load(name)
    for record in [*rows, *figures(name)]:
        if record.id == identity:
            return record
    if place.isdecimal():
        lines = [int(record.id.rpartition("/")[2]) for record in rows]
        near = sorted(lines, key=lambda line: abs(line - int(place)))[:2]
        raise UsageError(
            f"line {place} of {name} holds no figure; the nearest lines that do are "
            f"{' and '.join(map(str, sorted(near)))} (accelmark list published)."
        )
    raise UsageError(f"{safe(identity)!r} is no figure of {name}; accelmark list published shows its ids.")
