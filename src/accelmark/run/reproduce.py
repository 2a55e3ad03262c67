"""From a Record of somebody else's to the Jobs that repeat it here, and what keeps them from running.

A published row's Job says what ran there. Here the framework is PyTorch and the data is synthetic; everything
else stays, and each change is said. What this build or this machine lacks is said too, all of it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelmark.engines import available
from accelmark.engines.precision import unsupported
from accelmark.job import Job, Settings
from accelmark.measure.machine import describe_host, nvidia_gpus
from accelmark.networks import registry
from accelmark.networks.registry import CatalogEntry
from accelmark.record import Record
from accelmark.run.plan import Planned, default_batch, engine_cannot, no_such_parts, too_large
from accelmark.system import Accelerator, System

#: Scenarios that this build can run.
SCENARIOS = ("training", "inference")

#: What repeats of a run to a quality target is how fast it trains, on data of the same shapes: without the
#: data set nothing reaches the target, and none comes with this package.
TO_QUALITY = "time-to-quality"


@dataclass(frozen=True)
class Change:
    """A condition that is another here than there."""

    name: str
    there: str
    here: str

    def __str__(self) -> str:
        return f"{self.name.replace('_', ' ')}: {self.there} there, {self.here} here"


@dataclass(frozen=True)
class Reproduction:
    """One Job to run here, how it differs from the source's, and what is missing for it."""

    job: Job
    changes: tuple[Change, ...]
    missing: tuple[str, ...]
    rule: str | None = None

    def planned(self, settings: Settings) -> Planned:
        """The Job as a session takes it."""
        network = registry.catalog()[self.job.network]
        return Planned(
            self.job,
            settings,
            unit=f"{network.counted(self.job.scenario)}/s",
            rule=self.rule,
            unsupported="; ".join(self.missing) or None,
            flops_per_sample=network.flops(self.job) if self.job.scenario == "training" else None,
            default_batch=default_batch(network, self.job.scenario, self.job.size),
        )


def reproduce(record: Record, system: System, size: str | None = None) -> list[Reproduction]:
    """The Jobs that repeat a Record on this system: one, or one for each network of an average.

    `size` is `None` for the source's own, or the size to run instead.
    """
    return [_here(job, system, size) for job in _jobs(record.job)]


def _jobs(job: Job) -> list[Job]:
    """A Job of an average over networks as one Job for each of them."""
    networks = job.parameters.get("networks")
    if networks is None:
        return [job]
    rest = {name: value for name, value in job.parameters.items() if name not in ("networks", "over")}
    members = [member.partition("@") for member in str(networks).split(",")]
    return [
        job.model_copy(update={"network": name, "size": size or job.size, "parameters": rest})
        for name, _, size in members
    ]


def _here(job: Job, system: System, size: str | None) -> Reproduction:
    network = registry.catalog().get(job.network)
    wanted = size or job.size
    changes: list[Change] = []
    missing: list[str] = []
    if network is None:
        missing.append(f"network not in this build yet: {job.network}")
    elif wanted not in network.sizes:
        missing.append(f"{job.network} has no size {wanted}; it has {', '.join(network.sizes)}")
    task = job.parameters.get("task")
    if network is not None and task is not None and task not in network.tasks:
        missing.append(f"{job.network} has no task {task} in this build yet")
    scenario = "training" if job.scenario == TO_QUALITY else job.scenario
    if scenario != job.scenario:
        changes.append(Change("scenario", "time to quality", "training, without reaching the quality"))
    if scenario not in SCENARIOS:
        missing.append(f"scenario not in this build yet: {job.scenario}")
    small = wanted == "tiny" and job.size != "tiny"
    if small:
        changes.append(Change("size", job.size, "tiny"))
    accelerators = _accelerators(job, system, small, changes, missing)
    precision = _precision(job, system, small, changes, missing)
    batch_size, rule = _batch(job, network, wanted, small, changes)
    partition, instances = _partition(job, system, small, changes, missing)
    engine = available.native(system.accelerator.kind) if scenario == "inference" else "eager"
    for name, there, ours in (
        ("framework", job.framework, "pytorch"),
        ("engine", job.engine, engine),
        ("data", job.data, "synthetic"),
    ):
        if there != ours and (there is not None or name == "data"):
            changes.append(Change(name, there or "not stated", ours))
    # A training run is under no competition's rules.
    left = ("batch_size_rule", "rules") if scenario != job.scenario else ("batch_size_rule",)
    parameters = {name: value for name, value in job.parameters.items() if name not in left}
    if instances is not None:
        parameters["instances"] = instances
    here = job.model_copy(
        update={
            "scenario": scenario,
            "size": wanted,
            "parameters": {**parameters, "batch_size_rule": rule} if rule else parameters,
            "framework": "pytorch",
            "engine": engine,
            "precision": precision,
            "batch_size": batch_size,
            "partition": partition,
            "accelerators": accelerators,
            "nodes": 1,
            "data": "synthetic",
            "sequence_length": _sequence_length(job, network, wanted, small),
            "network_version": network.version if network else None,
        }
    )
    if scenario in SCENARIOS:
        cannot = engine_cannot(here, system)
        missing += [cannot] if cannot else []
    if network is not None and wanted in network.sizes:
        large = too_large(network, here, system)
        missing += [large] if large else []
    return Reproduction(here, tuple(changes), tuple(missing), rule)


def _sequence_length(job: Job, network: CatalogEntry | None, size: str, small: bool) -> int | None:
    """The source's; small, or where the source states none, the network's own."""
    if network is None or size not in network.sizes or (job.sequence_length is not None and not small):
        return job.sequence_length
    task = str(job.parameters.get("task"))
    return network.tasks[task] if task in network.tasks and not small else network.sizes[size].sequence_length


def _accelerators(job: Job, system: System, small: bool, changes: list[Change], missing: list[str]) -> int:
    here = system.accelerator.count
    if job.accelerators == 1 or (job.accelerators <= here and system.accelerator.kind != "cpu"):
        return job.accelerators
    if small:
        # Small, the Job's way through several ranks is what counts, and two show it.
        few = min(2, here)
        changes.append(Change("accelerators", str(job.accelerators), str(few)))
        return few
    have = 0 if system.accelerator.kind == "cpu" else here
    missing.append(f"needs {job.accelerators} accelerators, {have} here")
    return job.accelerators


def _partition(
    job: Job, system: System, small: bool, changes: list[Change], missing: list[str]
) -> tuple[str | None, int | None]:
    """The part of an accelerator that each instance has, and how many instances run."""
    stated = job.parameters.get("instances")
    instances = int(stated) if stated is not None else None
    why = no_such_parts(job, system)
    if why is None:
        return job.partition, instances
    if not small:
        missing.append(why)
        return job.partition, instances
    # Small, the Job's way through parts of the machine is what counts, and two show it.
    few = min(2, system.accelerator.count)
    changes.append(Change("partition", str(job.partition), f"1/{few}"))
    if instances is not None and instances > few:
        changes.append(Change("instances", str(instances), str(few)))
    return f"1/{few}", min(instances or 1, few)


def _precision(
    job: Job, system: System, small: bool, changes: list[Change], missing: list[str]
) -> str | None:
    if job.precision is None:
        changes.append(Change("precision", "not stated", "fp32"))
        return "fp32"
    why = unsupported(job.precision, system.accelerator, system.cpu)
    if why and small:
        changes.append(Change("precision", job.precision, "fp32"))
        return "fp32"
    if why:
        missing.append(f"precision {job.precision}: {why}")
    return job.precision


def _batch(
    job: Job, network: CatalogEntry | None, size: str, small: bool, changes: list[Change]
) -> tuple[int | None, str | None]:
    """The batch size per accelerator, or the rule by which it is found on the machine."""
    rule = job.parameters.get("batch_size_rule")
    if rule is not None and not small:
        return None, str(rule)
    default = default_batch(network, job.scenario, size) if network and size in network.sizes else None
    if job.batch_size is not None and not small:
        return job.batch_size, None
    there = "not stated" if job.batch_size is None else str(job.batch_size)
    if default is not None:
        changes.append(Change("batch_size", str(rule or there), str(default)))
    return default, None


def look() -> System:
    """This machine without starting a framework: NVIDIA boards by their driver, or else the CPU.

    Fast enough for a dry run. What other accelerators there are only the framework knows; a run asks it.
    """
    host = describe_host()
    gpus, _ = nvidia_gpus()
    if gpus:
        first = gpus[0]
        accelerator = Accelerator(
            name=first.name,
            kind="cuda",
            count=len(gpus),
            memory_gib=first.memory_gib,
            driver=first.driver,
            power_limit_w=first.power_limit_w,
            compute_capability=first.compute_capability,
        )
        return System(name=first.name, accelerator=accelerator, cpu=host.cpu, memory_gib=host.memory_gib)
    accelerator = Accelerator(name=host.cpu.name, kind="cpu", count=host.cpu.cores or 1)
    name = f"{host.cpu.name}, {host.cpu.cores} cores"
    return System(name=name, accelerator=accelerator, cpu=host.cpu, memory_gib=host.memory_gib, os=host.os)


@dataclass(frozen=True)
class Runnable:
    """How many rows resolve to Jobs, and how many of these can run here as they are, or small."""

    rows: int
    resolved: int
    here: int
    small: int


def count_runnable(records: Sequence[Record], system: System) -> Runnable:
    """Count over Records; one that stands for several Jobs counts if all of them can run."""
    full = [reproduce(record, system) for record in records]
    small = [reproduce(record, system, "tiny") for record in records]
    return Runnable(
        rows=len(records),
        resolved=sum(bool(jobs) for jobs in full),
        here=sum(bool(jobs) and not any(job.missing for job in jobs) for jobs in full),
        small=sum(bool(jobs) and not any(job.missing for job in jobs) for jobs in small),
    )
