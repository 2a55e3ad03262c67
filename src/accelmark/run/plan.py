"""From what the user asked for to a list of Jobs, each with the reason if it cannot run here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelmark.engines import available
from accelmark.engines.precision import absent, emulated
from accelmark.errors import UsageError, unknown
from accelmark.job import (
    ENGINES,
    INFERENCE_PRECISIONS,
    PRECISIONS,
    SCENARIOS,
    TRAINING_ENGINES,
    Job,
    Scalar,
    Settings,
)
from accelmark.measure.machine import mig_instances
from accelmark.networks import registry
from accelmark.networks.base import CHOICES, LOOKUPS
from accelmark.networks.registry import CatalogEntry
from accelmark.run import suite as suites
from accelmark.run.request import parts, profile, ranks
from accelmark.run.suite import BatchRule, Entry, latency_bound_ms
from accelmark.system import System

#: Seconds for one ceiling.
CEILING_S = 5.0
#: Milliseconds of audio in a chunk, where nobody says.
CHUNK_MS = 800
#: Scenarios in which a batch is one sample unless more are asked for; and those that can look for a batch.
ONE_AT_A_TIME = ("speech-synthesis", "inference")
FINDS_BATCHES = ("training", "inference")
#: Scenarios that run on one accelerator.
ON_ONE = ("speech-synthesis", "time-to-quality", "inference")


@dataclass(frozen=True)
class Wish:
    """What the user asked for beyond the names: each `None` leaves the suite's or network's own."""

    networks: Sequence[str] | None = None
    scenario: str | None = None
    size: str | None = None
    precisions: Sequence[str] | None = None
    engines: Sequence[str] | None = None
    batch_sizes: Sequence[BatchRule] | None = None
    accelerators: Sequence[int] | None = None
    gradient_accumulation: int | None = None
    task: str | None = None
    sequence_length: int | None = None
    embedding_rows: int | None = None
    lookups: str | None = None
    chunk_ms: int | None = None
    streams: int | None = None
    partitions: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Planned:
    """A Job to do. With a batch rule its batch size is found first; `unsupported` Jobs are only recorded."""

    job: Job
    settings: Settings
    unit: str
    rule: str | None = None
    unsupported: str | None = None
    network_file: Path | None = None
    flops_per_sample: float | None = None
    default_batch: int = 1


@dataclass(frozen=True)
class Target:
    """One thing to measure: a suite's entry or a network, and where its network is described."""

    entry: Entry
    catalog: dict[str, CatalogEntry]
    network_file: Path | None = None


def targets(names: Sequence[str], files: dict[str, dict[str, CatalogEntry]]) -> list[Target]:
    """What the names on the command line mean: suites, networks, or files with networks (in `files`)."""
    found = []
    for name in names:
        if name in files:
            entry = Entry(networks=sorted(files[name]))
            found.append(Target(entry, files[name], Path(name).resolve()))
        elif name in suites.names():
            found += [Target(entry, dict(registry.catalog())) for entry in suites.load(name).entries]
        elif name in registry.catalog():
            found.append(Target(Entry(networks=[name]), dict(registry.catalog())))
        else:
            raise unknown("suite or network", name, [*suites.names(), *registry.catalog()])
    return found


def plan(
    wanted: Sequence[Target], wish: Wish, settings: Settings, system: System
) -> tuple[list[Planned], list[str]]:
    """All Jobs, without doubles, and what a reader should know of what was left out."""
    _check(wish, wanted)
    jobs: dict[str, Planned] = {}
    left_out: set[int] = set()
    for target in wanted:
        for planned in _entry(target, wish, settings, system, left_out):
            jobs.setdefault(planned.job.key(), planned)
    counts = ", ".join(str(count) for count in sorted(left_out))
    notes = [f"{counts} accelerators are left out: {_have(system)}"] if left_out else []
    if not jobs:
        why = notes or ["no network is left by --network"]
        raise UsageError(f"nothing to measure: {why[0]}; see accelmark list networks.")
    return list(jobs.values()), notes


def _check(wish: Wish, wanted: Sequence[Target]) -> None:
    known = sorted({name for target in wanted for name in target.entry.networks})
    for name in wish.networks or ():
        if name not in known:
            raise unknown("network", name, known)
    for precision in wish.precisions or ():
        if precision not in INFERENCE_PRECISIONS:
            raise unknown("precision", precision, INFERENCE_PRECISIONS)
    if wish.scenario is not None and wish.scenario not in SCENARIOS:
        raise unknown("scenario", wish.scenario, SCENARIOS)
    for engine in wish.engines or ():
        if engine not in ENGINES:
            raise unknown("engine", engine, ENGINES)


def _entry(
    target: Target, wish: Wish, settings: Settings, system: System, left_out: set[int]
) -> list[Planned]:
    entry, planned = target.entry, []
    counts = list(wish.accelerators or entry.accelerators)
    if wish.accelerators is None:
        here = system.accelerator.count
        left_out.update(count for count in counts if count > here)
        counts = [count for count in counts if count <= here]
    # A batch that a suite asks for belongs to the size that it asks for.
    rules = wish.batch_sizes or (entry.batch_sizes if wish.size in (None, entry.size) else ["default"])
    names = [name for name in entry.networks if wish.networks is None or name in wish.networks]
    for name, precision, engine, rule, count in itertools.product(
        names, wish.precisions or entry.precisions, wish.engines or entry.engines, rules, counts
    ):
        if name not in target.catalog:
            raise unknown("network", name, target.catalog)
        network = target.catalog[name]
        size = wish.size or entry.size
        if size not in network.sizes:
            raise unknown(f"size of {name}", size, network.sizes)
        scenario = wish.scenario or entry.scenario
        if scenario not in network.scenarios:
            raise UsageError(f"{name} is not measured in {scenario}; it has {', '.join(network.scenarios)}.")
        task, length = _use(network, size, entry, wish)
        parameters: dict[str, Scalar] = {"task": task} if task else {}
        if isinstance(rule, str) and rule != "default":
            if scenario not in FINDS_BATCHES:
                raise UsageError(f"--batch-size {rule} is not for {scenario}: give a number.")
            parameters |= _of_rule(rule, scenario)
        parameters |= _choices(network, wish) | _of_scenario(scenario, wish)
        partition, instances = _partition(scenario, entry, wish)
        if instances is not None:
            parameters["instances"] = instances
        if wish.gradient_accumulation:
            parameters["gradient_accumulation"] = wish.gradient_accumulation
        default = default_batch(network, scenario, size)
        batch: int | None = default
        if rule != "default":
            batch = rule if isinstance(rule, int) else None
        job = Job(
            network=name,
            scenario=scenario,
            parameters=parameters,
            size=size,
            framework="pytorch",
            engine=available.native(system.accelerator.kind) if engine == "native" else engine,
            precision=precision,
            batch_size=batch,
            accelerators=count,
            partition=partition,
            data="synthetic",
            sequence_length=length,
            seed=wish.seed,
            network_version=network.version,
        )
        planned.append(
            Planned(
                job,
                settings.model_copy(update={"repeats": 1}) if scenario == "time-to-quality" else settings,
                unit=f"{network.counted(scenario)}/s",
                rule=rule if isinstance(rule, str) and rule != "default" else None,
                unsupported=cannot_run(job, system, settings.allow_emulated)
                or too_large(network, job, system),
                network_file=target.network_file,
                flops_per_sample=network.flops(job) if scenario == "training" else None,
                default_batch=default,
            )
        )
    return planned


def default_batch(network: CatalogEntry, scenario: str, size: str) -> int:
    """The batch size where nobody asks for one, and where a search for one begins."""
    return 1 if scenario in ONE_AT_A_TIME else network.sizes[size].batch_size


def _use(network: CatalogEntry, size: str, entry: Entry, wish: Wish) -> tuple[str | None, int | None]:
    """The task and the sequence length: those asked for, the suite's, or the network's own."""
    if wish.task is not None and wish.task not in network.tasks:
        if not network.tasks:
            raise UsageError(f"{network.name} has one use and takes no --task.")
        raise unknown(f"task of {network.name}", wish.task, network.tasks)
    task = wish.task or entry.task or next(iter(network.tasks), None)
    length = network.tasks[task] if task and size == "full" else network.sizes[size].sequence_length
    # A length that a suite asks for belongs to the size and the task that it asks for.
    if wish.size in (None, entry.size) and wish.task in (None, entry.task):
        length = entry.sequence_length or length
    if wish.sequence_length is not None and length is None:
        raise UsageError(f"{network.name} has no sequence length that --sequence-length could change.")
    return task, wish.sequence_length or length


def _of_rule(rule: str, scenario: str) -> dict[str, Scalar]:
    """What a batch that is sought on the machine adds to the parameters."""
    bound = latency_bound_ms(rule)
    if bound is None:
        return {"batch_size_rule": rule}
    if scenario != "inference":
        raise UsageError(f"--batch-size {rule!r} is for inference; this is {scenario}.")
    return {"batch_size_rule": rule, "latency_bound_ms": bound}


def _partition(scenario: str, entry: Entry, wish: Wish) -> tuple[str | None, int | None]:
    """The part of an accelerator that each instance has, and how many instances run."""
    if wish.partitions is None:
        return entry.partition, entry.instances
    if scenario != "inference":
        raise UsageError(f"--partitions is for inference; this is {scenario}.")
    return f"1/{wish.partitions}", wish.partitions


def _of_scenario(scenario: str, wish: Wish) -> dict[str, Scalar]:
    """What only some scenarios know."""
    if wish.streams is not None and scenario != "inference":
        raise UsageError(f"--streams is for inference; this is {scenario}.")
    if wish.streams is not None and wish.partitions is not None:
        raise UsageError("--streams and --partitions cannot be given together: each part runs one stream.")
    if scenario == "speech-synthesis":
        return {"vocoder": "waveglow", "chunk_ms": wish.chunk_ms or CHUNK_MS}
    if wish.chunk_ms is not None:
        raise UsageError(f"--chunk-ms is for speech-synthesis; this is {scenario}.")
    return {"streams": wish.streams} if wish.streams is not None and wish.streams > 1 else {}


def _choices(network: CatalogEntry, wish: Wish) -> dict[str, Scalar]:
    """What was chosen that is not the network's own."""
    chosen: dict[str, Scalar] = {}
    if wish.embedding_rows is not None:
        chosen["embedding_rows"] = wish.embedding_rows
    if wish.lookups is not None:
        if wish.lookups not in LOOKUPS:
            raise unknown("--lookups", wish.lookups, LOOKUPS)
        chosen["lookups"] = wish.lookups
    for name in chosen:
        if name not in network.choices:
            raise UsageError(f"{network.name} has no {CHOICES[name]}.")
    # Skewed is how each network's data is.
    return {name: value for name, value in chosen.items() if value != LOOKUPS[0]}


def cannot_run(job: Job, system: System, allow_emulated: bool) -> str | None:
    """Why a Job cannot run on this system, or None."""
    precision = job.precision or "fp32"
    why = _too_few(job, system) or engine_cannot(job, system) or no_such_parts(job, system)
    why = why or absent(precision, system.accelerator)
    if why is None and not allow_emulated:
        slow = emulated(precision, system.accelerator, system.cpu)
        why = f"{slow}; --allow-emulated measures it all the same" if slow else None
    return why


def _too_few(job: Job, system: System) -> str | None:
    accelerator = system.accelerator
    if job.accelerators > accelerator.count:
        kind = "CPU cores, one for each rank" if accelerator.kind == "cpu" else f"{accelerator.kind} devices"
        return f"needs {job.accelerators} {kind}; {_have(system)}"
    if job.accelerators > 1 and job.scenario in ON_ONE:
        return f"{job.scenario} runs on one accelerator"
    if job.accelerators > 1 and accelerator.kind == "mps":
        return "several accelerators: PyTorch has no collectives on MPS"
    return None


def engine_cannot(job: Job, system: System) -> str | None:
    """Why an engine does not do what a Job asks for, or what to install for it."""
    engine = job.engine or "eager"
    if job.scenario != "inference" and engine not in TRAINING_ENGINES:
        return f"{engine} runs inference and nothing else"
    if job.scenario != "inference" and job.precision not in (None, *PRECISIONS):
        return f"{job.precision} is for inference; nothing trains in it"
    integers = available.no_int8(engine, system.accelerator.kind) if job.precision == "int8" else None
    return integers or available.missing(engine)


def no_such_parts(job: Job, system: System) -> str | None:
    """Why the machine has not the parts that a Job runs in, or None; accelmark makes none."""
    if job.partition is None:
        return None
    accelerator, wanted = system.accelerator, max(parts(job), ranks(job))
    wanted_profile = profile(job)
    if accelerator.kind == "cpu":
        if wanted_profile is not None:
            return f"needs MIG instances of {wanted_profile}; a CPU has none"
        if wanted > accelerator.count:
            return f"needs {wanted} CPU cores, one for each part; {_have(system)}"
        return None
    there = mig_instances(wanted_profile) if accelerator.kind == "cuda" else []
    if len(there) >= ranks(job) or (wanted_profile is None and not there):
        return None  # without MIG several processes share the board
    what = f"MIG instances of {wanted_profile}" if wanted_profile else "MIG instances"
    return f"needs {ranks(job)} {what}; there are {len(there)}: make them with nvidia-smi mig"


def too_large(network: CatalogEntry, job: Job, system: System) -> str | None:
    """Why a Job's memory cannot be enough here, or None if it may be: what it needs is known from below."""
    accelerator, needed_gib = system.accelerator, network.memory_gib(job)
    if needed_gib is None:
        return None
    if accelerator.kind == "cpu":
        needed_gib *= ranks(job)
        available_gib = system.memory_gib
    else:
        available_gib = accelerator.memory_gib
    if available_gib is None or needed_gib <= available_gib:
        return None
    instead = "fewer --embedding-rows, " if "embedding_rows" in network.choices else ""
    return (
        f"needs at least {needed_gib:.1f} GiB of memory with a batch of {job.batch_size}; "
        f"there are {available_gib:.1f}: choose {instead}a smaller --batch-size or another size"
    )


def _have(system: System) -> str:
    return f"this machine has {system.accelerator.count}"


def ceilings(settings: Settings, system: System) -> list[Planned]:
    """The machine's ceilings as Jobs: matrix products, memory copy, host link, all-reduce.

    They repeat one operation and settle at once, so one process of a few seconds is enough for each.
    """
    short = settings.model_copy(update={"time_budget_s": CEILING_S, "target": 0.05, "repeats": 1})
    kinds: list[tuple[str, str, str | None, int]] = [
        *(("matrix-product", "FLOP/s", precision, 1) for precision in PRECISIONS),
        ("memory-copy", "B/s", None, 1),
        ("host-to-device", "B/s", None, 1),
        ("device-to-host", "B/s", None, 1),
    ]
    count = 1
    while 2 * count <= system.accelerator.count:
        count *= 2
        kinds.append(("all-reduce", "B/s", None, count))
    planned = []
    for name, unit, precision, accelerators in kinds:
        job = Job(
            network=name,
            scenario="ceiling",
            framework="pytorch",
            engine="eager",
            precision=precision,
            accelerators=accelerators,
        )
        unsupported = cannot_run(job, system, settings.allow_emulated)
        if name in ("host-to-device", "device-to-host") and system.accelerator.kind in ("cpu", "mps"):
            unsupported = "the device computes in host memory: there is no link to measure"
        planned.append(Planned(job, short, unit, unsupported=unsupported))
    return planned
