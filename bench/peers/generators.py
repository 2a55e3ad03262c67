"""Input generators beside the training steps that they feed, both on one thread, alternating in one process.

    python bench/peers/generators.py
    python bench/peers/generators.py ncf:4096 dlrm:1024 --embedding-rows 100000

Each word is NETWORK:BATCH_SIZE, at full size; without a batch size it is a tenth of the default one. Prints
a row of a table for each: samples/s of the generator alone and of training steps on two batches that are
there already, the median of their ratios, and its 95 % interval over the pairs of blocks. At a ratio of 5, a
program that draws every batch anew loses a sixth of its time to that.
"""

from __future__ import annotations

import argparse
import gc

import torch
from blocks import alternate, columns, full_size

from accelmark.engines.pytorch import TorchDevice
from accelmark.scenarios.training import TrainingStep

NETWORKS = ("ncf", "vae-cf", "wide-and-deep", "dlrm")


def compare(name: str, batch_size: int | None, options: argparse.Namespace) -> str:
    """Alternate, and say how it went as a row of a table."""
    network, config, job = full_size(name, batch_size, options.embedding_rows)
    size = job.batch_size
    step = TrainingStep(network, job, TorchDevice("cpu"))
    generator = torch.Generator().manual_seed(1)

    def generate() -> float:
        return float(network.units(network.batch(config, size, generator)))

    return f"| {name} | {size} | " + columns(
        *alternate(generate, step, options.pairs, options.seconds), network.unit
    )


def main() -> None:
    """Compare each network that was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK[:BATCH_SIZE]")
    parser.add_argument(
        "--embedding-rows", type=int, default=1_000_000, help="most rows of each embedding table (dlrm)"
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each block, at least two batches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    words = [word.partition(":") for word in options.networks]
    for name, colon, batch_size in words:
        if name not in NETWORKS or (colon and not batch_size.isdecimal()):
            raise SystemExit(f"{name}{colon}{batch_size} is not NETWORK:BATCH_SIZE of {', '.join(NETWORKS)}")
    for name, _, batch_size in words:
        print(compare(name, int(batch_size) if batch_size else None, options), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
