"""The published tables, as data: each set is a list of Records like any other, with the study it served.

A set is a module with `read()`, named in `SETS`, and imported only when it is asked for.
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelmark.errors import unknown
from accelmark.record import Record


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
    """A publication whose figures are carried here. `study` is there if it draws ratios from them.

    `module` holds the figures: its `read()` gives the Records.
    """

    name: str
    title: str
    date: datetime.date
    module: str
    study: Study | None = None


SETS: Mapping[str, PublishedSet] = {
    entry.name: entry
    for entry in (
        PublishedSet(
            name="lambda-2021-08",
            title="RTX A6000 vs RTX 3090 Deep Learning Benchmarks",
            date=datetime.date(2021, 8, 9),
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


def load(name: str) -> list[Record]:
    """The Records of a published set, in its own order."""
    records: list[Record] = importlib.import_module(entry(name).module).read()
    return records
