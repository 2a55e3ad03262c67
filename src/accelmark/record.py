"""A Record is what came out of a Job, wherever it came from: measured here, published, or imported.

The JSON Schema of this file is `docs/record.schema.json` (`make schema`); a test keeps it current.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from accelmark.job import Job, Model, Name, Scalar, Settings
from accelmark.system import Software, System

#: Raised whenever a Record written by this version could not be read by an older one.
SCHEMA_VERSION = 2

NonNegative = Annotated[float, Field(ge=0)]


class Status(StrEnum):
    """How a Record ended. Only `ok` and `noisy` carry a throughput that may be compared.

    `invalid` is an imported result that its benchmark's own rules reject; `interrupted` also one whose log is
    cut off.
    """

    OK = "ok"
    NOISY = "noisy"
    NOT_STATIONARY = "not_stationary"
    DIVERGED = "diverged"
    INVALID = "invalid"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"


#: Statuses whose figures are results.
USABLE = frozenset({Status.OK, Status.NOISY})
#: Statuses that end a Job for good: `--resume` does not run them again.
FINISHED = frozenset(Status) - {Status.INTERRUPTED, Status.CRASHED, Status.TIMED_OUT}


class Source(StrEnum):
    """Where a Record comes from."""

    MEASURED = "measured"
    PUBLISHED = "published"
    IMPORTED = "imported"


class Quantity(Model):
    """A value with its unit."""

    value: float
    unit: Name


class Throughput(Model):
    """Units processed per second, summed over accelerators.

    `ci95` is the 95 % interval, `n` the number of windows it rests on, `processes` the number of
    processes that those windows come from. With one process the interval says nothing about differences
    between processes, which are usually the larger part.
    """

    value: PositiveFloat
    unit: Name
    ci95: tuple[float, float] | None = None
    n: PositiveInt | None = None
    processes: PositiveInt | None = None


class Latency(Model):
    """Milliseconds, over `n` calls. A percentile that the count does not support is absent.

    Percentiles are nearest ranks (the smallest value that so many percent of the calls do not exceed), and
    need five calls beyond them: p50 10 calls, p90 50, p95 100, p99 500, p99.9 5,000.
    """

    min: PositiveFloat | None = None
    mean: PositiveFloat | None = None
    p50: PositiveFloat | None = None
    p90: PositiveFloat | None = None
    p95: PositiveFloat | None = None
    p97: PositiveFloat | None = None
    p99: PositiveFloat | None = None
    p99_9: PositiveFloat | None = None
    max: PositiveFloat | None = None
    n: PositiveInt | None = None


class Quality(Model):
    """A quality metric, its value, and the target it was to reach.

    `metric` ends in `, %` where values are percentages. `ci95` is the 95 % interval of the value.
    """

    metric: Name
    value: float | None = None
    target: float | None = None
    reached: bool | None = None
    ci95: tuple[float, float] | None = None


class Phase(Model):
    """One of the kinds of work that take turns in a Job, summed over its turns: `units` in `seconds`."""

    name: Name
    seconds: PositiveFloat
    units: PositiveFloat
    unit: Name


class Scaling(Model):
    """Efficiency of several accelerators against one: throughput / (resources x reference throughput).

    `reference` is the id of the one-accelerator Record. `basis` names what grew: `accelerators`, or
    `processes on one CPU`, where the resources stay the same and the ideal is the same throughput.
    """

    efficiency: PositiveFloat
    reference: Name
    basis: Name


class CeilingShare(Model):
    """Arithmetic rate reached, as a share of this machine's measured matrix-product rate."""

    share: PositiveFloat
    flops_per_s: PositiveFloat
    ceiling_flops_per_s: PositiveFloat
    reference: Name


class BandwidthShare(Model):
    """The least memory traffic reached, as a share of this machine's measured memory-copy rate.

    Counted are the weights, inputs and outputs, each once a call: what a network must move at least. A cache
    that holds the weights lets the share rise above 1.
    """

    share: PositiveFloat
    bytes_per_s: PositiveFloat
    ceiling_bytes_per_s: PositiveFloat
    reference: Name


class Execution(Model):
    """What an engine of inference really used.

    `provider` is the part of the engine that computes, `threads` are CPU threads of the engine, `kernels`
    which integer kernels were found in its graph. `copies` says whether moving inputs and outputs to and from
    the device is in the times.
    """

    provider: str
    threads: PositiveInt | None = None
    optimisations: str | None = None
    kernels: str | None = None
    copies: str | None = None


class Agreement(Model):
    """Outputs beside those of the reference (eager, fp32) on the same inputs.

    `relative_rms` is the root mean square of the difference over that of the reference, of the output where
    it is largest; `largest` the largest difference over the same; `mean` the mean one. `equal` is the share
    of whole-number outputs that are the same. `bound` is what `relative_rms` may be. `top1` is the share of
    `samples` whose best class is the same.
    """

    reference: str
    samples: PositiveInt
    bound: PositiveFloat
    relative_rms: NonNegative | None = None
    mean: NonNegative | None = None
    largest: NonNegative | None = None
    equal: NonNegative | None = None
    top1: NonNegative | None = None


class Part(Model):
    """One instance of a machine in parts: its throughput alone, and at the same time as all others.

    `power_w` is apportioned: the part's share of what the whole board or package took, by throughput.
    """

    name: Name
    throughput: Throughput
    alone: Throughput
    latency_ms: Latency | None = None
    power_w: PositiveFloat | None = None


class BatchTrial(Model):
    """One point of a search over batch sizes: a throughput, or the reason why there is none.

    `late_share` is the share of calls that took longer than the bound.
    """

    batch_size: PositiveInt
    status: Status
    throughput: PositiveFloat | None = None
    latency_ms: Latency | None = None
    late_share: NonNegative | None = None
    memory_peak_gib: PositiveFloat | None = None
    reason: str | None = None


class Metrics(Model):
    """What was measured. A metric that was not is absent, and `not_measured` says why; it is never 0.

    Units are in the names: `_s` seconds, `_ms` milliseconds, `_min` minutes, `_j` joules, `_w` watts,
    `_gib` 2^30 bytes. `memory_peak_gib` is the accelerator's memory, per accelerator and the largest;
    `host_memory_peak_gib` the resident memory of the worker's processes together. `rank_skew` is the mean
    over windows of (slowest - fastest rank) / slowest; `other_cpu_share` the share of the host's CPU time
    that other processes took while measuring. `padding_share` is how many of the units computed were padding,
    which no throughput counts; absent where nothing is padded. `flops_per_sample` counts forward and backward
    (of inference only forward) of one unit of the batch axis; `ceiling` is the rate of these against what
    this machine was measured to do.
    Of inference: `latency_ms` is of calls, `latency_with_copies_ms` with inputs and outputs moved to and from
    the device, `load_s` what the engine took to make the network ready, `least_bytes_per_call` what a call
    must move at least. `knee_batch_size` is where throughput / latency is largest of the batches tried.
    `power_basis` says what `power_w`, `energy_j` and `efficiency` (units per joule, written as throughput per
    watt) are of: the accelerators' boards, the whole system at its supply, or the CPU packages.
    `time_to_first_audio_s` and `time_between_chunks_s` are of speech synthesis.
    """

    throughput: Throughput | None = None
    latency_ms: Latency | None = None
    latency_with_copies_ms: Latency | None = None
    agreement: Agreement | None = None
    parts: list[Part] = []
    load_s: PositiveFloat | None = None
    least_bytes_per_call: PositiveFloat | None = None
    bandwidth: BandwidthShare | None = None
    knee_batch_size: PositiveInt | None = None
    time_to_train_min: PositiveFloat | None = None
    quality: list[Quality] = []
    phases: list[Phase] = []
    energy_j: PositiveFloat | None = None
    power_w: PositiveFloat | None = None
    idle_power_w: PositiveFloat | None = None
    energy_source: str | None = None
    power_basis: Literal["board", "system", "package"] | None = None
    efficiency: Quantity | None = None
    memory_peak_gib: PositiveFloat | None = None
    host_memory_peak_gib: PositiveFloat | None = None
    parameters: PositiveInt | None = None
    flops_per_sample: PositiveFloat | None = None
    ceiling: CeilingShare | None = None
    scaling: Scaling | None = None
    padding_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    rank_skew: NonNegative | None = None
    other_cpu_share: NonNegative | None = None
    step_s: PositiveFloat | None = None
    first_step_s: PositiveFloat | None = None
    warm_up_s: NonNegative | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    time_to_first_audio_s: PositiveFloat | None = None
    time_between_chunks_s: PositiveFloat | None = None
    ratio: PositiveFloat | None = None
    not_measured: dict[str, str] = {}


class Window(Model):
    """One measured stretch of whole steps, from one synchronised instant to the next.

    `units` are summed over ranks; `seconds` is the slowest rank's time, since all ranks start together;
    `rank_seconds` holds each rank's. `process` counts the repeats of the Job from 0.
    """

    process: Annotated[int, Field(ge=0)] = 0
    start_s: NonNegative
    seconds: PositiveFloat
    units: PositiveFloat
    steps: PositiveInt
    rank_seconds: list[PositiveFloat] = []


class Sample(Model):
    """One reading of the accelerator's own sensors (NVML) while measuring."""

    time_s: NonNegative
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: list[str] = []


class TrainingRun(Model):
    """One run of a set that time to train is scored from; one that failed has a reason and no `minutes`."""

    minutes: PositiveFloat | None = None
    reason: str | None = None
    file: str | None = None


class Calls(Model):
    """Every call of inference, in columns: its process, its stream (or part), and its time in ms."""

    process: list[Annotated[int, Field(ge=0)]] = []
    stream: list[Annotated[int, Field(ge=0)]] = []
    ms: list[PositiveFloat] = []


class Span(Model):
    """When the measured windows of a process began and ended, by the host's clock."""

    begin: datetime
    end: datetime


class Samples(Model):
    """The raw data; every statistic can be derived from it again.

    `calls` are many: a folder of Records keeps them beside a Record, as `ID.calls.parquet`.
    """

    windows: list[Window] = []
    warm_up: list[Window] = []
    step_ms: list[PositiveFloat] = []
    calls: Calls | None = None
    spans: list[Span] = []
    telemetry: list[Sample] = []
    batch_curve: list[BatchTrial] = []
    runs: list[TrainingRun] = []


class Origin(Model):
    """Where a published or imported Record was taken from, with the source row verbatim."""

    page: str | None = None
    file: str | None = None
    section: str | None = None
    line: PositiveInt | None = None
    row: str | None = None


class Record(Model):
    """The one form of every result.

    `conditions` are what a source says of how it measured and no other field holds: a rule book's division,
    power measured at the same time, a preview, what else ran. Comparing asks for the same on both sides.
    """

    id: Name
    schema_version: int = SCHEMA_VERSION
    source: Source
    status: Status
    reasons: list[str] = []
    started_at: datetime | None = None
    duration_s: NonNegative | None = None
    command: str | None = None
    job: Job
    settings: Settings | None = None
    system: System
    software: Software = Software()
    metrics: Metrics = Metrics()
    samples: Samples = Samples()
    conditions: dict[str, Scalar] = {}
    execution: Execution | None = None
    origin: Origin | None = None
    log_tail: str | None = None

    @property
    def when(self) -> datetime:
        """When it was measured, to order by; one without a time is older than any with one."""
        started = self.started_at
        if started is None:
            return datetime.min.replace(tzinfo=UTC)
        return started if started.tzinfo else started.replace(tzinfo=UTC)

    def text(self, indent: int | None = None) -> str:
        """JSON of all that is in a Record's file: without what is absent, and without its single calls."""
        return self.model_dump_json(indent=indent, exclude_none=True, exclude={"samples": {"calls"}})

    def replace(self, **changes: Any) -> Record:
        """A copy with fields changed, validated like any other Record."""
        return Record.model_validate({**dict(self), **changes})


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a Record."""
    schema = Record.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "accelmark Record", **schema}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
