"""Training steps beside those of others at the same configuration, alternating in one process.

    python bench/peers/compare.py bert-base:1 resnet50-v1.5:2                  # bare loops over libraries
    python bench/peers/compare.py --examples DeepLearningExamples gnmt-v2:8    # NVIDIA's PyTorch examples

Each word is NETWORK:BATCH_SIZE, at full size and in single precision. Both sides train a network of the same
number of parameters on the same two batches; blocks of steps alternate in the order A B B A, and each pair of
blocks gives a ratio of throughputs, ours over theirs. Prints a row of README.md's table for each network: the
median ratio, and the 95 % interval of the median over the pairs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import bare
import nvidia
import torch
from scipy import stats

from accelmark.engines.pytorch import TorchDevice
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.networks.base import Network
from accelmark.scenarios.training import TrainingStep


def peer_steps(
    network: Network, peer: nvidia.Peer, batches: list[Any], units: list[int]
) -> tuple[int, Callable[[], float]]:
    """Parameters of the other side's module, and its training step."""
    module, optimizer, loss_of = peer
    module.train()
    turns: Iterator[tuple[Any, int]] = cycle(zip(batches, units, strict=True))
    state = None

    def step() -> float:
        nonlocal state
        batch, count = next(turns)
        optimizer.zero_grad(set_to_none=True)
        loss, state = loss_of(batch, state)
        loss.backward()
        if network.clip_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), network.clip_gradient_norm)
        optimizer.step()
        return float(count)

    return sum(p.numel() for p in module.parameters()), step


def rate(step: Callable[[], float], seconds: float) -> float:
    """Units per second of whole rounds over both batches, at least one."""
    units, start = 0.0, time.perf_counter()
    while units == 0 or time.perf_counter() - start < seconds:
        units += step() + step()
    return units / (time.perf_counter() - start)


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """The order statistics between which the median lies with at least 95 % (David and Nagaraja, 7.1).

    Fewer than six values have none such; then these are the least and the largest.
    """
    ordered, n = sorted(values), len(values)
    lower = int(stats.binom.ppf(0.025, n, 0.5))
    return ordered[max(lower - 1, 0)], ordered[min(n - lower, n - 1)]


def compare(name: str, batch_size: int, options: argparse.Namespace) -> str:
    """Alternate, and say how it went as a row of a table."""
    network = registry.load(name)
    config = network.sizes["full"]
    job = Job(network=name, size="full", batch_size=batch_size, sequence_length=config.sequence_length)
    ours = TrainingStep(network, job, TorchDevice("cpu"))
    torch.manual_seed(0)
    theirs = "bare loop" if options.examples is None else "NVIDIA's example"
    peer = bare.PEERS[name]() if options.examples is None else nvidia.PEERS[name](options.examples, config)
    if peer[0].state_dict().keys() == ours.module.state_dict().keys():
        # What a detector finds, and so what it computes, depends on its weights.
        peer[0].load_state_dict(ours.module.state_dict())
    parameters, other = peer_steps(network, peer, ours.batches, ours.units)
    if abs(parameters / ours.parameters - 1) > 0.005:
        raise SystemExit(f"{name}: {ours.parameters:,} parameters here and {parameters:,} there")
    for step in (ours, other):
        rate(step, options.seconds / 2)
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    for pair in range(options.pairs):
        # Which side goes first alternates too, so that a drift falls on both alike.
        sides = [("ours", ours), ("theirs", other)]
        for side, step in sides if pair % 2 == 0 else reversed(sides):
            rates[side].append(rate(step, options.seconds))
    ratios = [a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True)]
    low, high = interval_of_median(ratios)
    here, there = (statistics.median(rates[side]) for side in ("ours", "theirs"))
    return (
        f"| {name} | {batch_size} | {theirs} | {ours.parameters:,} | {parameters:,} "
        f"| {here:.4g} | {there:.4g} {network.unit}/s "
        f"| {statistics.median(ratios):.3f} | {low:.3f} to {high:.3f} | {options.pairs} |"
    )


def main() -> None:
    """Compare each network that was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="NETWORK:BATCH_SIZE")
    parser.add_argument("--examples", type=Path, help="a clone of NVIDIA/DeepLearningExamples")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each block, at least two steps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    known = bare.PEERS if options.examples is None else nvidia.PEERS
    for word in options.networks:
        name, _, batch_size = word.partition(":")
        if name not in known or not batch_size.isdecimal():
            raise SystemExit(f"{word} is not NETWORK:BATCH_SIZE; there are {', '.join(known)}")
    for word in options.networks:
        name, _, batch_size = word.partition(":")
        print(compare(name, int(batch_size), options), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
