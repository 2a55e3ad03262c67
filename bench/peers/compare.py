"""Training steps beside those of others at the same configuration, alternating in one process.

    python bench/peers/compare.py bert-base:1 resnet50-v1.5:2                  # bare loops over libraries
    python bench/peers/compare.py --examples DeepLearningExamples gnmt-v2:8    # NVIDIA's PyTorch examples
    python bench/peers/compare.py --examples dlrm --embedding-rows 1000000 dlrm:2048

Each word is NETWORK:BATCH_SIZE, at full size and in single precision. Both sides train a network of the same
number of parameters on the same two batches; blocks of steps alternate in the order A B B A, and each pair of
blocks gives a ratio of throughputs, ours over theirs. Prints a row of README.md's table for each network: the
median ratio, and the 95 % interval of the median over the pairs.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import bare
import mlcommons
import nvidia
import nvidia_speech
import recommendation
import torch
from blocks import alternate, columns, full_size
from peer import Peer

from accelmark.engines.pytorch import TorchDevice
from accelmark.networks.base import Network
from accelmark.scenarios.training import TrainingStep


class Repository(NamedTuple):
    """What the table calls it, a folder or file by which a clone is known, and its networks."""

    title: str
    landmark: str
    peers: dict[str, Callable[[Path, Any], Peer]]


REPOSITORIES = {
    "NVIDIA/DeepLearningExamples": Repository(
        "NVIDIA's example",
        "PyTorch/LanguageModeling",
        nvidia.PEERS | nvidia_speech.PEERS | recommendation.NVIDIA,
    ),
    "facebookresearch/dlrm": Repository("authors' code", "dlrm_s_pytorch.py", recommendation.AUTHORS),
    "mlcommons/training": Repository(
        "MLCommons' reference", "retired_benchmarks/rnnt/pytorch", mlcommons.PEERS
    ),
}


def others(examples: Path | None) -> tuple[str, dict[str, Callable[[Any], Peer]]]:
    """What the other side is called, and how it is made of a configuration, by network."""
    if examples is None:
        return "bare loop", bare.PEERS
    for repository in REPOSITORIES.values():
        if (examples / repository.landmark).exists():
            return repository.title, {
                name: partial(make, examples) for name, make in repository.peers.items()
            }
    raise SystemExit(f"{examples} is no clone of {', '.join(REPOSITORIES)}")


def peer_steps(
    network: Network, peer: Peer, batches: list[Any], units: list[int]
) -> tuple[int, Callable[[], float]]:
    """Parameters of the other side's module, and its training step."""
    module = peer.module.train()
    converted = [peer.convert(batch) for batch in batches]
    turns: Iterator[tuple[Any, int]] = cycle(zip(converted, units, strict=True))
    state = None

    def step() -> float:
        nonlocal state
        batch, count = next(turns)
        peer.optimizer.zero_grad(set_to_none=True)
        loss, state = peer.loss(batch, state)
        loss.backward()
        if network.clip_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), network.clip_gradient_norm)
        peer.optimizer.step()
        return float(count)

    return sum(p.numel() for p in module.parameters()), step


def compare(name: str, batch_size: int, options: argparse.Namespace) -> str:
    """Alternate, and say how it went as a row of a table."""
    network, config, job = full_size(name, batch_size, options.embedding_rows)
    ours = TrainingStep(network, job, TorchDevice("cpu"))
    torch.manual_seed(0)
    title, peers = others(options.examples)
    peer = peers[name](config)
    if peer.module.state_dict().keys() == ours.module.state_dict().keys():
        # What a detector finds, and so what it computes, depends on its weights.
        peer.module.load_state_dict(ours.module.state_dict())
    parameters, theirs = peer_steps(network, peer, ours.batches, ours.units)
    if abs(parameters / ours.parameters - 1) > 0.005:
        raise SystemExit(f"{name}: {ours.parameters:,} parameters here and {parameters:,} there")
    ends = columns(*alternate(ours, theirs, options.pairs, options.seconds), network.unit)
    return f"| {name} | {batch_size} | {title} | {ours.parameters:,} | {parameters:,} | {ends}"


def main() -> None:
    """Compare each network that was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="NETWORK:BATCH_SIZE")
    parser.add_argument("--examples", type=Path, help=f"a clone of {', '.join(REPOSITORIES)}")
    parser.add_argument("--embedding-rows", type=int, help="most rows of each embedding table (dlrm)")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each block, at least two steps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    _, known = others(options.examples)
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
