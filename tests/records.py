"""Records for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from accelmark import conclude
from accelmark.job import Job, Settings
from accelmark.record import Metrics, Record, Samples, Source, Status, Window
from accelmark.system import Accelerator, Cpu, System


def windows(rate: float = 100.0, count: int = 20, process: int = 0, spread: float = 0.0) -> list[Window]:
    """Half-second windows at a rate in units/s, alternating by ± `spread`."""
    return [
        Window(
            process=process,
            start_s=i * 0.5,
            seconds=0.5 * (1 + spread * (1 if i % 2 else -1)),
            units=rate * 0.5,
            steps=10,
        )
        for i in range(count)
    ]


def record(identity: str = "a", **changes: Any) -> Record:
    """A measured Record of ResNet-50 at 100 images/s, with changes."""
    measured = windows()
    fields: dict[str, Any] = {
        "id": identity,
        "source": Source.MEASURED,
        "status": Status.OK,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "job": Job(
            network="resnet50-v1.5",
            framework="pytorch",
            engine="eager",
            precision="fp32",
            batch_size=8,
            data="synthetic",
        ),
        "settings": Settings(time_budget_s=5),
        "system": System(
            name="test machine",
            accelerator=Accelerator(name="test CPU", kind="cpu", count=2),
            cpu=Cpu(name="test CPU", cores=2),
        ),
        "metrics": Metrics(throughput=conclude.throughput(measured, "images/s")),
        "samples": Samples(windows=measured),
    }
    return Record(**{**fields, **changes})


def measured(identity: str, rates: list[float], **changes: Any) -> Record:
    """A Record of several processes, one rate each."""
    found = [window for p, rate in enumerate(rates) for window in windows(rate, process=p)]
    fields = {
        "metrics": Metrics(throughput=conclude.throughput(found, "images/s")),
        "samples": Samples(windows=found),
    }
    return record(identity, **{**fields, **changes})
