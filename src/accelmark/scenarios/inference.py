"""Inference: a network answers batches, on an engine, whole or in parts; throughput and every call's time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from accelmark import conclude
from accelmark.engines import inference as engines
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.pytorch import TorchDevice
from accelmark.job import Job, Settings
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.device import Device
from accelmark.measure.in_flight import InFlight, ObservedDevice
from accelmark.measure.loop import Alone, Group, Measurement, measure
from accelmark.networks.base import Network
from accelmark.record import Agreement, Calls, Metrics, Part, Samples, Status, Throughput
from accelmark.scenarios.agreement import compare, disagreement
from accelmark.scenarios.outcome import OnWindow, Outcome
from accelmark.scenarios.parts import calls_of_all, common_window, parts_of, with_power
from accelmark.scenarios.ready import Ready, ready
from accelmark.scenarios.watch import Watch, two_steps

#: Share of the budget in which each part of a machine in parts is measured alone, all of them together.
ALONE_SHARE = 0.4
#: Calls with copies, at least, and seconds for them.
COPIES, COPIES_S = 50, 1.0
IN_TIME = "inputs and outputs lie on the device; latency_with_copies_ms has the copies in"
NO_COPIES = "the device computes in host memory: there are none"


def run(
    network: Network,
    job: Job,
    settings: Settings,
    device: TorchDevice,
    group: Group,
    on_window: OnWindow,
    folder: Path,
) -> Outcome:
    """Measure a Job's inference in this process; with several ranks, each is one part of the machine."""
    in_parts = "instances" in job.parameters
    watch = Watch(device, group, shared=in_parts)
    asked = ready(network, job, device.torch_device)
    answering = Answering(asked, job, device, folder / f"engine-{group.rank}")
    agreement = compare(
        answering.outputs(),
        asked.answers,
        job.precision or "fp32",
        classes=network.task == "image classification",
        ordered=not network.task.endswith(("detection", "instance segmentation")),
    )
    known = answering.metrics(agreement)
    execution = answering.prepared.execution.model_copy(
        update={"copies": NO_COPIES if device.kind == "cpu" else IN_TIME}
    )
    wrong = disagreement(agreement, job.precision or "fp32")
    if wrong is not None:
        return Outcome(Status.DIVERGED, [wrong], Metrics(**known), Samples(), execution=execution)
    timed = Timed(answering, int(job.parameters.get("streams", 1)), background=in_parts)
    unit = f"{network.inference_unit or network.unit}/s"
    budget_s = settings.process_budget_s()
    alone: Throughput | None = None

    def measured(group: Group, budget_s: float, **others: Any) -> Measurement:
        with timed.running(device) as (step, observed):
            return measure(
                step,
                observed,
                budget_s=budget_s,
                target=settings.target,
                window_s=settings.window_s,
                group=group,
                **others,
            )

    def begin() -> None:
        timed.forget()
        watch.start()

    with watch:
        if in_parts:
            for turn in range(group.size):
                group.barrier()
                if turn == group.rank:
                    windows = measured(Alone(), budget_s * ALONE_SHARE / group.size).windows
                    alone = conclude.throughput(windows, unit)
            budget_s *= 1 - ALONE_SHARE
        measurement = measured(group, budget_s, on_start=begin, on_window=on_window)
        watch.stop()
    with_copies = None if device.kind == "cpu" else answering.with_copies()
    calls = timed.calls(group.rank if in_parts else None)
    parts: list[Part] = []
    if alone is not None:
        calls = calls_of_all(group, calls)
        parts = parts_of(group, measurement.windows, calls, alone)
        measurement.windows = [common_window(window) for window in measurement.windows]
        measurement.warm_up = [common_window(window) for window in measurement.warm_up]
    outcome = watch.outcome(
        measurement,
        unit,
        settings,
        latency_ms=conclude.latency(calls.ms),
        latency_with_copies_ms=conclude.latency(with_copies) if with_copies else None,
        parts=parts,
        **known,
    )
    metrics = outcome.metrics.model_copy(update={"first_step_s": answering.first_call_s})
    if metrics.power_w is not None and parts:
        metrics = metrics.model_copy(update={"parts": with_power(parts, metrics.power_w)})
    return outcome._replace(
        metrics=metrics,
        samples=outcome.samples.model_copy(update={"calls": calls, "step_ms": []}),
        execution=execution,
    )


def trial(network: Network, job: Job, device: TorchDevice, group: Group, folder: Path) -> Outcome:
    """Two calls, to see whether a batch fits, with what the engine needs to make the network ready."""

    def make() -> Callable[[], float]:
        asked = ready(network, job, device.torch_device)
        return Timed(Answering(asked, job, device, folder / f"engine-{group.rank}")).one

    return two_steps(make, device, group)


class Answering:
    """A network that an engine has made ready, with its batches where the engine reads them."""

    def __init__(
        self,
        asked: Ready,
        job: Job,
        device: TorchDevice,
        folder: Path,
        clock: Clock = MONOTONIC,
        prepare: Callable[[Load], Prepared] = engines.prepare,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.asked, self.clock = asked, clock
        self.rows = job.batch_size or 1
        load = Load(
            engine=job.engine or "eager",
            module=asked.module,
            batches=asked.batches,
            precision=job.precision or "fp32",
            device=device.torch_device,
            threads=torch.get_num_threads(),
            folder=folder,
            streams=int(job.parameters.get("streams", 1)),
            memory_format=asked.memory_format,
            # Small networks are measured to see that they work, and optimising their graphs takes longer.
            optimize_graph=job.size == "full",
        )
        start = clock()
        self.prepared = prepare(load)
        self.load_s = clock() - start
        self.placed = [self.prepared.place(inputs) for inputs in asked.batches]
        self.first_call_s: float | None = None

    def outputs(self) -> list[list[Any]]:
        """What the engine answers to each batch; the first call is timed."""
        call, outputs = self.prepared.stream(), []
        for inputs in self.placed:
            start = self.clock()
            given = call(inputs)
            if self.first_call_s is None:
                self.first_call_s = self.clock() - start
            outputs.append(self.prepared.fetch(given))
        return outputs

    def with_copies(self) -> list[float]:
        """Milliseconds of calls whose inputs come from the host and whose outputs go back there."""
        call = self.prepared.stream()
        times: list[float] = []
        until = self.clock() + COPIES_S
        while len(times) < COPIES or self.clock() < until:
            inputs = self.asked.batches[len(times) % len(self.asked.batches)]
            start = self.clock()
            self.prepared.fetch(call(self.prepared.place(inputs)))
            times.append((self.clock() - start) * 1000)
        return times

    def metrics(self, agreement: Agreement) -> dict[str, Any]:
        """What is known before anything is timed."""
        missing = {}
        if self.asked.flops is None:
            missing["flops_per_sample"] = "the operations of recurrent layers are not counted"
        return {
            "agreement": agreement,
            "parameters": self.asked.parameters,
            "load_s": self.load_s,
            "flops_per_sample": self.asked.flops / self.rows if self.asked.flops else None,
            "least_bytes_per_call": self.asked.least_bytes,
            "not_measured": missing,
        }


class Timed:
    """Calls for the measuring loop, each of them timed: one after the other, or several in flight.

    `background`: also one stream runs by itself, as parts of a machine do, which must not rest while others
    are still measuring.
    """

    def __init__(
        self, answering: Answering, streams: int = 1, background: bool = False, clock: Clock = MONOTONIC
    ) -> None:
        self.answering, self.clock = answering, clock
        self._streams = [self._timed(i, answering.prepared.stream()) for i in range(streams)]
        self._overlap = streams > 1 or background
        #: Stream and milliseconds of each call; one list, because streams add to it at the same time.
        self._calls: list[tuple[int, float]] = []
        self._turn = 0

    @contextlib.contextmanager
    def running(self, device: Device) -> Iterator[tuple[Callable[[], float], Device]]:
        """A step for the loop, and what the loop synchronises; streams run until the block ends."""
        if not self._overlap:
            yield self.one, device
            return
        with InFlight(self._streams, float(self.answering.rows)) as flight:
            yield flight, ObservedDevice(device, flight)

    def one(self) -> float:
        """The first stream's next call; its units."""
        self._streams[0](self._turn)
        self._turn += 1
        return float(self.answering.rows)

    def forget(self) -> None:
        """Warm-up is over."""
        self._calls.clear()

    def calls(self, stream: int | None = None) -> Calls:
        """All calls since; of one `stream` if they are a part's."""
        calls = list(self._calls)
        return Calls(
            process=[0] * len(calls),
            stream=[its if stream is None else stream for its, _ in calls],
            ms=[ms for _, ms in calls],
        )

    def _timed(self, stream: int, way: Callable[[Any], Any]) -> Callable[[int], None]:
        placed = self.answering.placed

        def call(turn: int) -> None:
            inputs = placed[turn % len(placed)]
            start = self.clock()
            way(inputs)
            self._calls.append((stream, (self.clock() - start) * 1000))

        return call
