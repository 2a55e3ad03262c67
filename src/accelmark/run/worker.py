"""The worker: one Job in, one Record out, in a process of its own (`python -m accelmark.run.worker FOLDER`).

Under `torchrun` each rank is such a process and rank 0 writes. A worker never decides about other Jobs, and
whatever it leaks, crashes or exhausts ends with it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from accelmark.errors import DivergedError, UnsupportedError
from accelmark.measure.machine import memory_available_gib, mig_instances, usable_cpus
from accelmark.record import Record, Source, Status, Window
from accelmark.run.ranks import die_with_parent
from accelmark.run.request import (
    PROGRESS,
    RECORD,
    REQUEST,
    Failure,
    Request,
    failure_file,
    parts,
    profile,
)

if TYPE_CHECKING:
    from accelmark.engines.pytorch import TorchDevice
    from accelmark.measure.loop import Group
    from accelmark.scenarios.outcome import OnWindow, Outcome

#: Host memory that a worker leaves to everything else.
HOST_RESERVE_GIB = 1.0
GIB = 2**30


def main(folder: Path) -> int:
    """Do what the folder's request says; the exit code is 0 if a Record or a failure was written."""
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    request = Request.model_validate_json((folder / REQUEST).read_bytes())
    die_with_parent()
    if request.device == "cpu":
        _share_cpu(rank, parts(request.job))
        _limit_memory(ranks)
    elif request.job.partition is not None:
        _see_own_instance(rank, profile(request.job))
    # Torch is imported after the limits are set, so that its thread pools are made inside of them.
    from accelmark.engines.pytorch import is_out_of_memory

    try:
        record = _perform(request, folder, rank, ranks)
    except UnsupportedError as error:
        failure = Failure(status=Status.UNSUPPORTED, reason=str(error))
    except DivergedError as error:
        failure = Failure(status=Status.DIVERGED, reason=str(error))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        failure = Failure(status=Status.OUT_OF_MEMORY, reason=first_line)
    else:
        if rank == 0:
            _write(folder / RECORD, record.model_dump_json())
        return 0
    _write(folder / failure_file(rank), failure.model_dump_json())
    # Other ranks may wait for this one for ever: leave at once, and torchrun ends them.
    sys.stdout.flush()
    os._exit(0 if ranks == 1 else 1)


def _perform(request: Request, folder: Path, rank: int, ranks: int) -> Record:
    from accelmark.engines.pytorch import TorchDevice, TorchGroup, local_rank
    from accelmark.measure.loop import Alone

    started = time.perf_counter()
    started_at = datetime.now(UTC)
    # Parts of one accelerator are told apart by what each process may see, not by a number.
    in_parts = request.job.partition is not None
    device = TorchDevice(request.device, 0 if in_parts else local_rank())
    group: Group = TorchGroup(device, shared=in_parts) if ranks > 1 else Alone()
    with (folder / PROGRESS).open("a", encoding="utf-8") if rank == 0 else open(os.devnull, "a") as progress:

        def on_window(window: Window, warm_up: bool) -> None:
            line = {"warm_up": warm_up, "window": window.model_dump()}
            progress.write(json.dumps(line) + "\n")
            progress.flush()

        outcome = _scenario(request, device, group, on_window, folder)
    if isinstance(group, TorchGroup):
        group.close()
    return Record(
        id=request.id,
        source=Source.MEASURED,
        status=outcome.status,
        reasons=outcome.reasons,
        started_at=started_at,
        duration_s=time.perf_counter() - started,
        command=request.command,
        job=request.job,
        settings=request.settings,
        system=request.system,
        software=request.software,
        metrics=outcome.metrics,
        samples=outcome.samples,
        conditions=dict(outcome.conditions),
        execution=outcome.execution,
    )


def _scenario(
    request: Request, device: TorchDevice, group: Group, on_window: OnWindow, folder: Path
) -> Outcome:
    from accelmark.networks import registry
    from accelmark.scenarios import ceiling, inference, synthesis, time_to_quality, training

    job, settings = request.job, request.settings
    if job.scenario == "ceiling":
        return ceiling.run(job, settings, device, group, on_window)
    if request.network_file:
        network = registry.load_file(request.network_file, job.network)
    else:
        network = registry.load(job.network)
    match job.scenario, request.purpose:
        case "training", "trial":
            outcome = training.trial(network, job, device, group)
        case "training", _:
            outcome = training.run(network, job, settings, device, group, on_window)
        case "inference", "trial":
            outcome = inference.trial(network, job, device, group, folder)
        case "inference", _:
            outcome = inference.run(network, job, settings, device, group, on_window, folder)
        case "speech-synthesis", _:
            outcome = synthesis.run(network, job, settings, device, group, on_window)
        case "time-to-quality", _:
            outcome = time_to_quality.run(network, job, settings, device)
        case _:
            raise UnsupportedError(f"the scenario {job.scenario} is not in this build")
    return outcome


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _see_own_instance(rank: int, profile: str | None) -> None:
    """On a board that is divided into MIG instances each process sees one of them; else all see the board."""
    instances = mig_instances(profile)
    if instances:
        os.environ["CUDA_VISIBLE_DEVICES"] = instances[rank].uuid


def _share_cpu(rank: int, ranks: int) -> None:
    """Give each rank on a CPU its own cores: ranks that share cores would measure the scheduler."""
    cpus = usable_cpus()
    share = max(1, len(cpus) // ranks)
    if ranks > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus[rank * share : (rank + 1) * share] or cpus)
    os.environ["OMP_NUM_THREADS"] = str(share)


def _limit_memory(ranks: int) -> None:
    """Make allocations fail before the machine runs out: an error here is better than a killer there.

    The limit is on data that the process maps privately, which is what tensors are.
    """
    if sys.platform != "linux":
        return
    share = max(0.25, (memory_available_gib() - HOST_RESERVE_GIB) / ranks)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(share * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
