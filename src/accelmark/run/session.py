"""A session: all planned Jobs measured, process by process, and kept as Records.

Whole processes are repeated, in an order that is shuffled anew for each round, so that slow drifts of the
machine fall on all Jobs alike and a Job's repeats lie apart. A Job's Record is written after its first
process and rewritten after each further one: whatever ends the session, what was measured is on disk.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from accelmark import conclude
from accelmark.engines.available import named
from accelmark.job import Job, Settings
from accelmark.record import (
    FINISHED,
    USABLE,
    BandwidthShare,
    CeilingShare,
    Record,
    Samples,
    Scaling,
    Source,
    Status,
    Window,
)
from accelmark.run import batch_size, isolate
from accelmark.run.plan import Planned
from accelmark.run.probe import Probe
from accelmark.run.request import Request
from accelmark.run.suite import latency_bound_ms
from accelmark.store import Store, read
from accelmark.system import Software, System

#: Seconds that a process takes besides measuring, until the first one has shown it.
START_GUESS_S = 8.0
#: How a batch is tried when the fastest is sought: a few seconds, one process.
SWEEP: dict[str, float] = {"time_budget_s": 3.0, "target": 0.05, "repeats": 1}


#: A target that no interval reaches, so that a trial uses its whole budget.
NEVER_SURE = 1e-6


class Reporter(Protocol):
    """Whoever shows the progress."""

    def begin(self, total_s: float, jobs: int) -> None:
        """So many seconds are expected for so many Jobs."""

    def work(self, label: str, remaining_s: float) -> None:
        """A process starts; `remaining_s` are expected with it."""

    def window(self, window: Window, warm_up: bool) -> None:
        """A window of the running process has ended."""

    def done(self, record: Record, final: bool) -> None:
        """A Job has a Record; `final` if no process is missing."""

    def close(self) -> None:
        """The session is over."""


class _InterruptedError(Exception):
    """The user ended the session."""


@dataclass
class _Work:
    """One Job of the session and what has come of it."""

    planned: Planned
    id: str
    parts: list[Record] = field(default_factory=list)
    curve: Samples = field(default_factory=Samples)
    record: Record | None = None

    @property
    def ended(self) -> bool:
        return self.record is not None and self.record.status not in (*USABLE, Status.NOT_STATIONARY)


@dataclass
class Session:
    """Everything that the Jobs of one command have in common."""

    probe: Probe
    device: str
    system: System
    store: Store
    reporter: Reporter
    command: str
    shuffle_seed: int = 0
    interrupted: bool = False
    _start_s: float = START_GUESS_S

    def run(self, jobs: Sequence[Planned], resume: bool) -> list[Record]:
        """Measure all Jobs; the Records in order of the plan.

        On Ctrl-C `interrupted` is set and the Records are those of what was measured until then.
        """
        # Several Jobs of one second must not share an id; a few random digits keep merged folders apart.
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        works = [_Work(planned, f"{stamp}-{i:03d}-{planned.job.network}") for i, planned in enumerate(jobs)]
        if resume:
            self._take_finished(works)
        order = self._order(works)
        self.reporter.begin(self._expected_s(order), len(works))
        try:
            for work in works:
                if work.record is None and work.planned.unsupported:
                    self._keep(
                        work, self._bare(work, Status.UNSUPPORTED, work.planned.unsupported), final=True
                    )
            for i, work in enumerate(order):
                if not work.ended:
                    self.reporter.work(work.planned.job.label(), self._expected_s(order[i:]))
                    self._measure(work)
        except _InterruptedError:
            self.interrupted = True
        finally:
            self._close(works)
        self._put_in_relation(works)
        return [work.record for work in works if work.record is not None]

    def _expected_s(self, order: Sequence[_Work]) -> float:
        """Seconds that these processes will take."""
        left = [work for work in order if not work.ended]
        return math.fsum(self._start_s + work.planned.settings.process_budget_s() for work in left)

    def _take_finished(self, works: list[_Work]) -> None:
        """Take over Records of an earlier run whose Jobs are finished; unfinished ones are done anew."""
        found = {
            _resume_key(record.job, record.settings): record
            for record in read([self.store.folder]).records
            if record.source is Source.MEASURED and record.system.name == self.system.name
        }
        for work in works:
            record = found.get(_resume_key(work.planned.job, work.planned.settings))
            if record is None:
                continue
            work.id = record.id
            if _is_complete(record):
                work.record = record
                self.reporter.done(record, final=True)

    def _order(self, works: list[_Work]) -> list[_Work]:
        """Every process to run: round by round of repeats, each round in an order of its own."""
        todo = [work for work in works if work.record is None and not work.planned.unsupported]
        shuffle = random.Random(self.shuffle_seed)  # noqa: S311 - an order, not a secret
        order: list[_Work] = []
        for repeat in range(max((work.planned.settings.processes() for work in todo), default=0)):
            part = [work for work in todo if repeat < work.planned.settings.processes()]
            order += shuffle.sample(part, len(part))
        return order

    def _measure(self, work: _Work) -> None:
        """One process of a Job, with the search for its batch before the first one."""
        if work.planned.rule and work.planned.job.batch_size is None and not self._find_batch(work):
            return
        part = self._process(work.planned, work.id)
        if part.status is Status.INTERRUPTED and work.parts:
            raise _InterruptedError
        overhead = (part.duration_s or 0.0) - _measured_s(part)
        if part.status in USABLE:
            self._start_s = 0.7 * self._start_s + 0.3 * max(overhead, 0.0)
        work.parts.append(part)
        record = conclude.combine(work.parts)
        if work.curve.batch_curve:
            curve = work.curve.batch_curve
            record = record.replace(
                samples=record.samples.model_copy(update={"batch_curve": curve}),
                metrics=record.metrics.model_copy(update={"knee_batch_size": batch_size.knee(curve)}),
            )
            record = in_time(record)
        work.record = record
        self._keep(work, record, work.ended or len(work.parts) == work.planned.settings.processes())
        if part.status is Status.INTERRUPTED:
            raise _InterruptedError

    def _find_batch(self, work: _Work) -> bool:
        planned = work.planned
        rule, job = planned.rule, planned.job
        bound_ms = latency_bound_ms(rule) if rule else None

        def attempt(size: int) -> Record:
            tried = replace(planned, job=job.model_copy(update={"batch_size": size}))
            if bound_ms is not None:
                # Warm-up takes up to half of a budget; the rest has calls enough if each is just in time.
                seconds = max(SWEEP["time_budget_s"], 2 * batch_size.CALLS_TO_TELL * bound_ms / 1000)
                calm = {**SWEEP, "time_budget_s": seconds, "target": NEVER_SURE}
                trial = planned.settings.model_copy(update=calm)
                return self._process(replace(tried, settings=trial), work.id)
            if rule == "best":
                short = planned.settings.model_copy(update=SWEEP)
                return self._process(replace(tried, settings=short), work.id)
            return self._process(tried, work.id, trial=True)

        start = planned.default_batch
        if rule == "best":
            search = batch_size.fastest(attempt, start)
        else:
            search = batch_size.largest(attempt, start, bound_ms=bound_ms)
        work.curve = Samples(batch_curve=search.curve)
        if search.failure is not None or search.batch_size is None:
            status = search.failure.status if search.failure else Status.OUT_OF_MEMORY
            reasons = search.failure.reasons if search.failure else ["not even a batch of 1 fits into memory"]
            if search.failure is None and bound_ms is not None and search.bound.startswith("the latency"):
                status = Status.UNSUPPORTED
                reasons = [f"a batch of 1 takes longer than {bound_ms:g} ms in more than 1 % of its calls"]
            record = self._bare(work, status, f"while the batch size was sought: {'; '.join(reasons)}")
            log = search.failure.log_tail if search.failure else None
            self._keep(work, record.replace(samples=work.curve, log_tail=log), final=True)
            if status is Status.INTERRUPTED:
                raise _InterruptedError
            return False
        parameters = {**job.parameters, "batch_size_bound": search.bound}
        found = job.model_copy(update={"batch_size": search.batch_size, "parameters": parameters})
        work.planned = replace(planned, job=found)
        return True

    def _process(self, planned: Planned, record_id: str, trial: bool = False) -> Record:
        request = Request(
            id=record_id,
            job=planned.job,
            settings=planned.settings,
            system=self.system,
            software=self._software(planned.job),
            device=self.device,
            purpose="trial" if trial else "measure",
            command=self.command,
            network_file=planned.network_file,
        )
        return isolate.run(request, planned.unit, self.reporter.window)

    def _bare(self, work: _Work, status: Status, reason: str) -> Record:
        return Record(
            id=work.id,
            source=Source.MEASURED,
            status=status,
            reasons=[reason],
            started_at=datetime.now(UTC),
            command=self.command,
            job=work.planned.job,
            settings=work.planned.settings,
            system=self.system,
            software=self._software(work.planned.job),
        )

    def _software(self, job: Job) -> Software:
        """What runs the Job: another engine than the framework's own is named with its version."""
        engine = named(job.engine or "eager")
        return self.probe.software.model_copy(update={"engine": engine} if engine else {})

    def _keep(self, work: _Work, record: Record, final: bool) -> None:
        counted = work.planned.flops_per_sample
        # What the catalog did not count a worker may have.
        metrics = record.metrics.model_copy(update={"flops_per_sample": counted} if counted else {})
        work.record = record.replace(metrics=metrics)
        self.store.write(work.record)
        self.reporter.done(work.record, final)

    def _close(self, works: list[_Work]) -> None:
        """Mark Jobs whose repeats are not all there, so that --resume knows."""
        for work in works:
            if work.record is None or not work.parts or work.ended:
                continue
            wanted = work.planned.settings.processes()
            if len(work.parts) < wanted:
                reason = f"{len(work.parts)} of {wanted} processes were measured"
                work.record = work.record.replace(
                    status=Status.INTERRUPTED, reasons=[f"{reason}; --resume measures it anew"]
                )
                self.store.write(work.record)

    def _put_in_relation(self, works: list[_Work]) -> None:
        """Add what only shows beside other Records: scaling efficiency and the share of the ceiling."""
        everything = read([self.store.folder]).records
        for work in works:
            if work.record is None or work.record.status not in USABLE:
                continue
            metrics = work.record.metrics.model_copy(
                update={
                    "scaling": scaling(work.record, everything),
                    "ceiling": ceiling_share(work.record, everything),
                    "bandwidth": bandwidth_share(work.record, everything),
                }
            )
            if metrics != work.record.metrics:
                work.record = work.record.replace(metrics=metrics)
                self.store.write(work.record)


def in_time(record: Record) -> Record:
    """A Record of a batch that was sought under a bound: noisy if its calls came later than then."""
    bound_ms = record.job.parameters.get("latency_bound_ms")
    if bound_ms is None or record.status not in USABLE:
        return record
    late = batch_size.late_share(record, float(bound_ms))
    if late <= batch_size.LATE:
        return record
    reason = f"{late:.1%} of the calls took longer than the {float(bound_ms):g} ms that were asked for"
    return record.replace(status=Status.NOISY, reasons=[reason, *record.reasons])


def _measured_s(record: Record) -> float:
    return math.fsum(w.seconds for w in (*record.samples.windows, *record.samples.warm_up))


def _resume_key(job: Job, settings: Settings | None) -> str:
    """Equal for the same wish: a batch size that a rule has found is no part of it."""
    if "batch_size_rule" in job.parameters:
        parameters = {key: value for key, value in job.parameters.items() if key != "batch_size_bound"}
        job = job.model_copy(update={"batch_size": None, "parameters": parameters})
    return job.key() + (settings.model_dump_json() if settings else "")


def _is_complete(record: Record) -> bool:
    if record.status not in FINISHED:
        return False
    if record.status not in USABLE:
        return True
    throughput, settings = record.metrics.throughput, record.settings
    if throughput is None or settings is None:
        return False
    return (throughput.processes or 0) >= settings.processes()


def scaling(record: Record, others: Sequence[Record]) -> Scaling | None:
    """Efficiency against the newest usable Record of the same Job on one accelerator of the same system."""
    if record.job.accelerators == 1 or record.metrics.throughput is None:
        return None
    one = record.job.model_copy(update={"accelerators": 1})
    found = [
        other
        for other in others
        if other.status in USABLE and other.system.name == record.system.name and _same_load(other.job, one)
    ]
    if not found:
        return None
    reference = max(found, key=lambda other: other.when)
    assert reference.metrics.throughput is not None  # noqa: S101 - usable Records have one
    on_cpu = record.system.accelerator.kind == "cpu"
    resources = 1 if on_cpu else record.job.accelerators
    return Scaling(
        efficiency=record.metrics.throughput.value / resources / reference.metrics.throughput.value,
        reference=reference.id,
        basis="processes on one CPU" if on_cpu else "accelerators",
    )


def _same_load(job: Job, other: Job) -> bool:
    """The same Job, with any batch size where a rule found it."""
    return _resume_key(job, None) == _resume_key(other, None)


def ceiling_share(record: Record, others: Sequence[Record]) -> CeilingShare | None:
    """Arithmetic rate against the measured matrix-product rate of the same system and precision."""
    metrics, job = record.metrics, record.job
    if metrics.flops_per_sample is None or metrics.step_s is None or job.batch_size is None:
        return None
    reference = _ceiling(record, others, "matrix-product", job.precision)
    if reference is None or reference.metrics.throughput is None:
        return None
    samples = job.batch_size * job.accelerators * int(job.parameters.get("gradient_accumulation", 1))
    rate = metrics.flops_per_sample * samples / metrics.step_s
    if job.scenario == "inference" and metrics.throughput is not None:
        # Calls of several streams or parts overlap; what they count are samples.
        rate = metrics.flops_per_sample * metrics.throughput.value
    ceiling = reference.metrics.throughput.value
    if record.system.accelerator.kind != "cpu":
        ceiling *= job.accelerators
    return CeilingShare(
        share=rate / ceiling, flops_per_s=rate, ceiling_flops_per_s=ceiling, reference=reference.id
    )


def bandwidth_share(record: Record, others: Sequence[Record]) -> BandwidthShare | None:
    """The least memory traffic of inference against the measured memory-copy rate of the same system."""
    metrics, job = record.metrics, record.job
    if metrics.least_bytes_per_call is None or metrics.throughput is None or job.batch_size is None:
        return None
    reference = _ceiling(record, others, "memory-copy", None)
    if reference is None or reference.metrics.throughput is None:
        return None
    rate = metrics.least_bytes_per_call * metrics.throughput.value / job.batch_size
    ceiling = reference.metrics.throughput.value
    return BandwidthShare(
        share=rate / ceiling, bytes_per_s=rate, ceiling_bytes_per_s=ceiling, reference=reference.id
    )


def _ceiling(record: Record, others: Sequence[Record], name: str, precision: str | None) -> Record | None:
    """The newest usable Record of one of this system's ceilings."""
    found = [
        other
        for other in others
        if other.job.scenario == "ceiling"
        and other.job.network == name
        and other.job.precision == precision
        and other.system.name == record.system.name
        and other.status in USABLE
        and other.metrics.throughput is not None
    ]
    return max(found, key=lambda other: other.when, default=None)
