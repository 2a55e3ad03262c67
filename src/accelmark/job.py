"""A Job says what is to be measured; Settings say how carefully.

Both are frozen, complete and serialisable: a Job crosses from the planning process to a worker process
(another interpreter, `torchrun`, another host) as JSON and nothing else is shared.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Scalar = bool | int | float | str
#: One line of text of sane length; what does not fit here is no name.
Name = Annotated[str, Field(min_length=1, max_length=200)]

#: Precisions of training, in the field's words. `fp16` and `bf16` are mixed precision (autocast, and
#: gradient scaling for fp16); `fp32` has TF32 off; `tf32` is fp32 storage with TF32 matrix products.
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
#: Of inference too: `int8` is static quantisation, weights and activations.
INFERENCE_PRECISIONS = (*PRECISIONS, "int8")
#: Engines that train, and those that only answer.
TRAINING_ENGINES = ("eager", "compile")
ENGINES = (*TRAINING_ENGINES, "onnxruntime", "onnxruntime-tensorrt", "openvino", "tensorrt")

#: Every scenario that a Record may be of, and what its figures are. LoadGen's are named as LoadGen does.
SCENARIOS = {
    "training": "training throughput",
    "time-to-quality": "minutes of training to a quality target",
    "inference": "throughput and latency at a batch size",
    "offline": "MLPerf: all samples at once",
    "server": "MLPerf: queries arrive at random, a share of them in time",
    "single-stream": "MLPerf: one query after the other",
    "multi-stream": "MLPerf: a fixed number of samples at a time",
    "serving": "a model server under concurrent clients",
    "speech-recognition": "a service that transcribes streams of audio",
    "speech-synthesis": "a service that speaks text",
    "language-service": "a service that answers text requests",
    "ceiling": "what the machine itself can do",
}


class Model(BaseModel):
    """Base of all plain data here: immutable, and a field that the schema does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Job(Model):
    """What is to be measured.

    `batch_size` counts units of the network's batch axis per accelerator, or per instance of a partitioned
    one (images, sequences). `None` means that there is none, or that the source does not say.
    `accelerators` counts all accelerators over all nodes. `partition` is the part of one accelerator that an
    instance has (`1g.10gb`, `1/7`).
    `parameters` hold what only some scenarios know: `gradient_accumulation`, `batch_size_rule` (`max`, `best`
    or `under 7ms`: the batch was found on the machine), `task` (what a network with several uses does),
    `embedding_rows` (where every embedding table ends), `lookups` (`uniform` where they are not skewed),
    `rules` (the rule book, such as `mlperf-inference-1.0`), `accuracy_target` (99 or 99.9 % of fp32),
    `latency_bound_ms`, `streams`, `chunk_ms` (audio at a time), `vocoder` (what makes audio of spectrograms),
    `mode`, `instances` (of a partitioned accelerator, all busy), `model_instances`,
    `concurrent_requests`, `dynamic_batch_size`.
    """

    network: Name
    scenario: Name = "training"
    parameters: dict[str, Scalar] = {}
    size: Name = "full"
    framework: Name | None = None
    engine: Name | None = None
    precision: Name | None = None
    batch_size: Annotated[int, Field(ge=1)] | None = None
    accelerators: Annotated[int, Field(ge=1)] = 1
    nodes: Annotated[int, Field(ge=1)] = 1
    partition: Name | None = None
    data: Name | None = None
    sequence_length: Annotated[int, Field(ge=1)] | None = None
    seed: int = 0
    network_version: int | None = None

    def key(self) -> str:
        """A short digest of the Job: equal for equal Jobs, on any machine and in any version of Python."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def label(self) -> str:
        """One line for people: network, size, precision, batch, accelerators."""
        parts = [self.network]
        if self.size != "full":
            parts.append(self.size)
        parts += [part for part in (self.precision, self.partition) if part]
        if self.engine not in (None, "eager"):
            parts.append(str(self.engine))
        if self.batch_size is not None:
            parts.append(f"batch {self.batch_size}")
        if "streams" in self.parameters:
            parts.append(f"{self.parameters['streams']} streams")
        if "instances" in self.parameters:
            parts.append(f"{self.parameters['instances']} instances")
        parts.append(f"{self.accelerators}x")
        return " ".join(parts)


class Settings(Model):
    """How carefully a Job is measured. Kept in the Record, because an interval depends on it.

    Times are seconds. `target` is the half-width of the 95 % interval, relative to the value, at which
    measuring stops and above which a Record is `noisy`. `time_budget_s` bounds warm-up and measuring of
    one Job over all its processes; starting processes and building networks comes on top.
    """

    time_budget_s: Annotated[float, Field(gt=0)] = 60.0
    target: Annotated[float, Field(gt=0, lt=1)] = 0.01
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    window_s: Annotated[float, Field(gt=0)] = 0.5
    timeout_s: Annotated[float, Field(gt=0)] = 900.0
    device: Name | None = None
    allow_emulated: bool = False

    def processes(self) -> int:
        """How many processes share the budget: `repeats` if each gets 5 s or more of it, else one.

        Fewer than were asked for would not do: the interval between two processes has one degree of freedom
        and is six times as wide as that between three.
        """
        return self.repeats if self.time_budget_s / self.repeats >= 5 else 1

    def process_budget_s(self) -> float:
        """Seconds of warm-up and measuring for one process."""
        return self.time_budget_s / self.processes()
