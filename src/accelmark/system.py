"""The machine and its software, as plain data. What could not be read is `None`, never a guess."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from accelmark.job import Model, Name


class Accelerator(Model):
    """What computes. On a machine without one it is the CPU itself (`kind` = `cpu`)."""

    name: Name
    kind: Name = "unknown"
    count: Annotated[int, Field(ge=1)] = 1
    memory_gib: float | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    partition: str | None = None
    compute_capability: str | None = None


class Cpu(Model):
    """The host's processors. `cores` are those this process may use (affinity and cgroup quota)."""

    name: str
    cores: int | None = None
    sockets: int | None = None
    instructions: list[str] = []


class System(Model):
    """One machine, or one machine type of a published row."""

    name: Name
    accelerator: Accelerator
    cpu: Cpu | None = None
    memory_gib: float | None = None
    os: str | None = None
    server: str | None = None
    container: str | None = None


class Software(Model):
    """What ran, by version. `git_revision` is that of accelmark when it runs from a checkout."""

    accelmark: str | None = None
    python: str | None = None
    framework: str | None = None
    engine: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    libraries: dict[str, str] = {}
    git_revision: str | None = None
