"""DLRM's tables over several ranks: the training is that of one process on all ranks' batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import UnsupportedError
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.networks.recommendation.dlrm import DLRMNetwork
from accelmark.scenarios.training import TrainingStep
from tests.run.conftest import command, records

STEPS = 4
JOBS = {
    "fp32": {},
    "accumulated": {"parameters": {"gradient_accumulation": 2}},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
}


def job(name: str) -> Job:
    return Job(network="dlrm", size="tiny", batch_size=16, **JOBS[name])


def state(step: TrainingStep) -> dict[str, torch.Tensor]:
    module = step.ddp.module if step.ddp else step.module
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def trained(step: TrainingStep) -> dict:
    start, losses = state(step), []
    for _ in range(STEPS):
        step()
        losses.append(step.last_loss.item())
    return {"start": start, "end": state(step), "losses": losses, "parameters": step.parameters}


RANK = """
import sys, torch, torch.distributed as dist
from accelmark.engines.pytorch import TorchDevice
from accelmark.networks import registry
from accelmark.scenarios.training import TrainingStep
from tests.scenarios.test_sharded_tables import JOBS, job, state, trained

rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)

def made(name):
    return TrainingStep(registry.load("dlrm"), job(name), TorchDevice("cpu"), rank, ranks)

found = {name: trained(made(name)) for name in JOBS}

# Only the last rank's share overflows.
step = made("fp16")
if rank == ranks - 1:
    step.ddp.module.vectors.weight.register_hook(lambda gradient: gradient * float("inf"))
start, scale = state(step), step.scaler.get_scale()
step()
same = all(torch.equal(value, start[name]) for name, value in state(step).items())
found["overflow"] = {"same": same, "scale": step.scaler.get_scale() / scale}
torch.save(found, f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each of two ranks, and of three, which do not divide the width of 8, has trained."""
    folder = tmp_path_factory.mktemp("ranks")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(request.param), str(folder)],
            cwd=Path(__file__).parents[2],
        )
        for rank in range(request.param)
    ]
    codes = [process.wait(timeout=120) for process in processes]
    assert codes == [0] * request.param
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


def alone(name: str, ranks: int) -> dict:
    """One process that trains on the batches of all ranks together."""
    network = registry.load("dlrm")
    step = TrainingStep(network, job(name), TorchDevice("cpu"))
    generators = [torch.Generator().manual_seed(rank) for rank in range(ranks)]
    config = network.sizes["tiny"]
    for i in range(len(step.batches)):
        parts = [network.batch(config, 16, generator) for generator in generators]
        step.batches[i] = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    return trained(step)


def whole(ranks: list[dict], name: str, when: str) -> dict[str, torch.Tensor]:
    """All parameters, the tables put together of their shares."""
    own = [rank[name][when] for rank in ranks]
    for key in own[0].keys() - {"vectors.weight"}:
        assert all(torch.equal(each[key], own[0][key]) for each in own)
    return own[0] | {"vectors.weight": torch.cat([each["vectors.weight"] for each in own], 1)}


@pytest.mark.parametrize(
    ("name", "tolerance"), [("fp32", 1e-5), ("accumulated", 1e-5), ("bf16", 2e-2), ("fp16", 2e-3)]
)
def test_ranks_learn_what_one_process_learns_on_all_their_batches(
    ranks: list[dict], name: str, tolerance: float
) -> None:
    expected = alone(name, len(ranks))
    start, end = whole(ranks, name, "start"), whole(ranks, name, "end")
    assert start.keys() == expected["start"].keys()
    assert all(torch.equal(start[key], value) for key, value in expected["start"].items())
    losses = torch.tensor([rank[name]["losses"] for rank in ranks]).mean(0)
    torch.testing.assert_close(losses, torch.tensor(expected["losses"]), rtol=tolerance, atol=tolerance)
    for key, value in expected["end"].items():
        # By how far they moved: a gradient that is wrong by a factor is no rounding.
        moved = value - expected["start"][key]
        assert moved.abs().max() > 0
        error = (end[key] - value).abs().max() / moved.abs().max()
        assert error < 10 * tolerance, (key, error)
    assert {rank[name]["parameters"] for rank in ranks} == {expected["parameters"]}
    assert expected["parameters"] == registry.entry("dlrm").sizes["tiny"].parameters


def test_each_rank_holds_its_share_of_the_tables(ranks: list[dict]) -> None:
    widths = [rank["fp32"]["end"]["vectors.weight"].shape[1] for rank in ranks]
    assert widths == {2: [4, 4], 3: [2, 3, 3]}[len(ranks)]


def test_what_overflows_on_one_rank_is_left_out_by_all(ranks: list[dict]) -> None:
    assert [rank["overflow"] for rank in ranks] == [{"same": True, "scale": 0.5}] * len(ranks)


def test_what_cannot_be_divided_is_said() -> None:
    network = registry.load("dlrm")
    with pytest.raises(UnsupportedError, match="vectors of 8 values cannot be divided over 9 accelerators"):
        network.build_share(network.sizes["tiny"], 0, 9)

    class Clipped(DLRMNetwork):
        clip_gradient_norm = 1.0

    with pytest.raises(UnsupportedError, match="dlrm clips gradients that several accelerators hold"):
        TrainingStep(Clipped(), job("fp32"), TorchDevice("cpu"), 0, 2)


def test_a_share_is_all_that_a_rank_ever_holds() -> None:
    """A table of 128 columns of 2 MiB: with two of them, a process grows by far less than by all."""
    code = """
import resource, torch
from accelmark.networks import registry
from accelmark.networks.recommendation.dlrm import DLRMConfig
config = DLRMConfig(batch_size=1, rows=(2**19,), width=128, bottom=(8,), top=(8,), learning_rate=1.0)
network, peak = registry.load("dlrm"), lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
before = peak()
module = network.build_share(config, 3, 64)
print(module.vectors.weight.nbytes / 2**20, peak() - before)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    held, grown = map(float, result.stdout.split())
    assert held == 4
    assert grown < 64


def test_memory_of_the_tables_is_divided_by_the_accelerators() -> None:
    entry = registry.entry("dlrm")
    tables = 187_767_399 * 128 * 4 / 2**30
    one, eight = (
        Job(network="dlrm", batch_size=65_536, precision="fp32", accelerators=count) for count in (1, 8)
    )
    assert entry.memory_gib(one) - entry.memory_gib(eight) == pytest.approx(tables * 7 / 8)
    assert entry.memory_gib(eight) == pytest.approx(tables / 8 + 1.9, abs=0.1)
    ended = [each.model_copy(update={"parameters": {"embedding_rows": 100}}) for each in (one, eight)]
    rows = sum(min(rows, 100) for rows in entry.sizes["full"].table_rows)
    assert entry.memory_gib(ended[0]) - entry.memory_gib(ended[1]) == pytest.approx(
        rows * 128 * 4 * 7 / 8 / 2**30
    )
    # All else is on each accelerator as on one.
    bert = Job(network="bert-base", batch_size=8, precision="fp32", sequence_length=384)
    several = bert.model_copy(update={"accelerators": 8})
    assert registry.entry("bert-base").memory_gib(bert) == registry.entry("bert-base").memory_gib(several)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core is one accelerator")
def test_a_run_of_two_accelerators(tmp_path: Path) -> None:
    words = ("run", "dlrm", "--size", "tiny", "--accelerators", "2", "--time-budget", "2s", "--out", "r")
    result = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert result.returncode == 0, result.stderr
    record = records(tmp_path / "r")["dlrm"]
    assert record["status"] in ("ok", "noisy"), json.dumps(record["reasons"])
    assert record["job"]["accelerators"] == 2
    assert record["metrics"]["parameters"] == registry.entry("dlrm").sizes["tiny"].parameters
    assert record["metrics"]["loss_last"] < record["metrics"]["loss_first"]
