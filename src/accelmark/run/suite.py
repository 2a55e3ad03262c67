"""Suites: what to measure together, as YAML files in `suites/`."""

from __future__ import annotations

import re
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import Field

from accelmark import published
from accelmark.errors import unknown
from accelmark.job import Model
from accelmark.networks import registry

_UNDER = r"under (\d+(?:\.\d+)?)ms"
#: A fixed batch per accelerator, the network's default, the largest that fits, the fastest, or the largest
#: whose 99th percentile of latency is under a bound.
BatchRule = (
    Annotated[int, Field(ge=1)]
    | Literal["default", "max", "best"]
    | Annotated[str, Field(pattern=f"^{_UNDER}$")]
)


class Entry(Model):
    """Networks that are measured in the same way; every combination of the lists is a Job.

    Accelerator counts above what the machine has are left out: a suite says what would be worth measuring.
    """

    networks: list[str]
    scenario: str = "training"
    size: str = "full"
    precisions: list[str] = ["fp32"]
    #: `native` is the one that gets most out of the device (`engines.available.native`).
    engines: list[str] = ["eager"]
    batch_sizes: list[BatchRule] = ["default"]
    accelerators: list[int] = [1]
    partition: str | None = None
    instances: int | None = None
    #: One of the networks' tasks, and a length in tokens; `None` is the networks' own.
    task: str | None = None
    sequence_length: int | None = None


def latency_bound_ms(rule: BatchRule) -> float | None:
    """The bound of a rule like `under 7ms`, or None for another one."""
    found = re.fullmatch(_UNDER, rule) if isinstance(rule, str) else None
    return float(found[1]) if found else None


class PublishedRows(Model):
    """A suite of the rows of a published set with one of these scenarios, as they are printed."""

    set: str
    scenarios: list[str]


class SuiteSettings(Model):
    """Where a suite asks for less or more care than the defaults; `None` keeps the default."""

    time_budget_s: float | None = None
    target: float | None = None
    repeats: int | None = None


class Suite(Model):
    """One suite. `ceilings` measures the machine's ceilings too, so that results can be put against them."""

    name: str
    description: str
    ceilings: bool = False
    settings: SuiteSettings = SuiteSettings()
    published: PublishedRows | None = None
    entries: list[Entry] = []


def names() -> list[str]:
    """The suites of this build."""
    folder = resources.files("accelmark.run").joinpath("suites")
    return sorted(path.name.removesuffix(".yaml") for path in folder.iterdir() if path.name.endswith(".yaml"))


def load(name: str) -> Suite:
    """A suite by name; an unknown one is a `UsageError` that says what was meant."""
    if name not in names():
        raise unknown("suite", name, names())
    text = resources.files("accelmark.run").joinpath("suites", f"{name}.yaml").read_text(encoding="utf-8")
    suite = Suite.model_validate({"name": name, **yaml.safe_load(text)})
    if suite.published is None:
        return suite
    return suite.model_copy(update={"entries": suite.entries + _rows(suite.published)})


def _rows(wanted: PublishedRows) -> list[Entry]:
    """An entry for each way in which a network of this build was measured, in the order of the page."""
    jobs = [record.job for record in published.load(wanted.set)]
    entries = [
        Entry(
            networks=[job.network],
            scenario=job.scenario if job.scenario == "inference" else "training",
            size=job.size,
            precisions=[job.precision or "fp32"],
            engines=["native"] if job.scenario == "inference" else ["eager"],
            batch_sizes=[job.batch_size or "default"],
            accelerators=[job.accelerators],
            partition=job.partition,
            instances=int(job.parameters["instances"]) if "instances" in job.parameters else None,
            task=str(job.parameters["task"]) if "task" in job.parameters else None,
            sequence_length=job.sequence_length,
        )
        for job in jobs
        if job.scenario in wanted.scenarios and job.network in registry.catalog()
    ]
    return list({entry.model_dump_json(): entry for entry in entries}.values())
