"""Records for the tests of the audit."""

from __future__ import annotations

from typing import Any

from accelmark.job import Job
from accelmark.record import Latency, Metrics, Origin, Record, Source, Status, Throughput
from accelmark.system import Accelerator, System


def row(
    identity: str,
    throughput: float | None = None,
    unit: str = "images/s",
    *,
    latency: float | None = None,
    board: str = "V100-SXM2-32GB",
    network: str = "resnet50-v1.5",
    printed: str | None = None,
    section: str | None = None,
    conditions: dict[str, Any] | None = None,
    metrics: dict[str, Any] | None = None,
    status: Status = Status.OK,
    **job: Any,
) -> Record:
    """A published row; `printed` is its text, without which its figures are not taken for rounded."""
    accelerators = job.setdefault("accelerators", 1)
    return Record(
        id=identity,
        source=Source.PUBLISHED,
        status=status,
        job=Job(network=network, **{"scenario": "inference", **job}),
        system=System(name=board, accelerator=Accelerator(name=board, kind="cuda", count=accelerators)),
        metrics=Metrics(
            throughput=Throughput(value=throughput, unit=unit) if throughput else None,
            latency_ms=Latency(mean=latency) if latency else None,
            **(metrics or {}),
        ),
        conditions=conditions or {},
        origin=Origin(row=printed, section=section) if printed or section else None,
    )
