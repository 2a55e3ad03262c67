"""Tables that two real ranks hold between them train as one process does on both batches together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from accelmark.engines.pytorch import TorchDevice, TorchGroup
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.scenarios.training import TrainingStep

JOB = Job(network="dlrm", size="tiny", engine="eager", precision="fp32", batch_size=8, accelerators=2)
STEPS = 3


def rank_main(rank: int, folder: str, port: int) -> None:
    """One rank of two: train, and leave what it has for the test to see."""
    import os

    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    device = TorchDevice("cpu")
    group = TorchGroup(device)
    step = TrainingStep(registry.load("dlrm"), JOB, device, rank, 2)
    held = sum(parameter.numel() for parameter in step.module.parameters())
    for _ in range(STEPS):
        step()
    state = {name.removeprefix("module."): value for name, value in step.module.state_dict().items()}
    loss = float(step.last_loss) if step.last_loss is not None else None
    found = {
        "batches": step.batches,
        "state": state,
        "parameters": step.parameters,
        "held": held,
        "loss": loss,
    }
    torch.save(found, Path(folder) / f"{rank}.pt")
    group.close()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    import socket

    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank_main, args=(str(folder), port), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def test_two_ranks_learn_what_one_does_of_both_batches(ranks: list[dict[str, Any]]) -> None:
    network = registry.load("dlrm")
    config = network.configure("tiny")
    torch.manual_seed(JOB.seed)
    module = network.build(config)
    optimizer = network.optimizer(module, config)
    for step in range(STEPS):
        halves = [rank["batches"][step % len(rank["batches"])] for rank in ranks]
        batch = {name: torch.cat([half[name] for half in halves]) for name in halves[0]}
        optimizer.zero_grad()
        loss, _ = network.loss(module, batch, None)
        loss.backward()
        optimizer.step()
    assert float(loss) == pytest.approx((ranks[0]["loss"] + ranks[1]["loss"]) / 2, rel=1e-4)
    for name, value in module.state_dict().items():
        if name == "vectors.weight":
            held = torch.cat([rank["state"][name] for rank in ranks], 1)
            torch.testing.assert_close(held, value)
        else:
            for rank in ranks:
                torch.testing.assert_close(rank["state"][name], value)


def test_each_holds_half_of_the_tables_and_counts_them_whole(ranks: list[dict[str, Any]]) -> None:
    whole = registry.catalog()["dlrm"].sizes["tiny"]
    tables = sum(whole.table_rows) * whole.table_width
    for rank in ranks:
        assert rank["parameters"] == whole.parameters
        assert rank["held"] == whole.parameters - tables / 2


def test_the_memory_that_is_needed_is_a_share_of_the_tables() -> None:
    dlrm = registry.catalog()["dlrm"]
    job = Job(network="dlrm", size="full", precision="fp32", batch_size=1024)
    tables_gib = 4 * sum(dlrm.sizes["full"].table_rows) * dlrm.sizes["full"].table_width / 2**30
    one = dlrm.memory_gib(job)
    eight = dlrm.memory_gib(job.model_copy(update={"accelerators": 8}))
    assert one is not None
    assert eight is not None
    assert one - eight == pytest.approx(tables_gib * 7 / 8)
