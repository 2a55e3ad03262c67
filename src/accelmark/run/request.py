"""What the parent tells a worker: everything it needs, as one JSON file in a folder of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from accelmark.job import Job, Model, Settings
from accelmark.record import Status
from accelmark.system import Software, System

REQUEST, RECORD, PROGRESS, LOG = "request.json", "record.json", "progress.jsonl", "log.txt"


class Request(Model):
    """One process's work. `trial` runs two steps, to see whether they fit into memory.

    `network_file` is a file given on the command line, never one named in a Record.
    """

    id: str
    job: Job
    settings: Settings
    system: System
    software: Software
    device: str
    purpose: Literal["measure", "trial"] = "measure"
    command: str | None = None
    network_file: Path | None = None


def ranks(job: Job) -> int:
    """How many processes a Job runs in at the same time: one an accelerator, or one a part."""
    return job.accelerators * int(job.parameters.get("instances", 1) if job.partition else 1)


def parts(job: Job) -> int:
    """Into how many parts the machine is divided, of which each process has one."""
    whole = re.fullmatch(r"1/([1-9][0-9]*)", job.partition or "")
    return int(whole[1]) if whole else ranks(job)


def profile(job: Job) -> str | None:
    """The MIG profile that a Job's parts must have, such as `1g.10gb`; `None` if any equal parts will do."""
    return None if job.partition is None or job.partition.startswith("1/") else job.partition


class Failure(Model):
    """Why a worker ended without a Record, written by the rank that knows."""

    status: Status
    reason: str


def failure_file(rank: int) -> str:
    """The name of a rank's failure file in the worker's folder."""
    return f"failure-{rank}.json"
