"""The harness beside a bare loop over the same training step, alternating in one run.

    python bench/overhead.py [--network NAME] [--size tiny] [--batch-size 8] [--pairs 20] [--seconds 3]

Both sides run the same step object in the same process: the harness through `measure`, as a worker does with
its checks, its memory mark and its progress file; the other in a hand-written loop that does nothing but
step. Prints each pair's ratio of throughputs (harness / bare) and their median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile

import torch

from accelmark.engines.pytorch import TorchDevice, available_kinds
from accelmark.job import Job
from accelmark.measure.clock import MONOTONIC
from accelmark.measure.loop import measure
from accelmark.measure.memory import HostMemory
from accelmark.networks import registry
from accelmark.record import Window
from accelmark.scenarios.training import TrainingStep


def harness(step: TrainingStep, device: TorchDevice, seconds: float) -> float:
    """Units per second of the measured windows."""
    with tempfile.TemporaryFile("w") as progress, HostMemory():

        def on_window(window: Window, warm_up: bool) -> None:
            progress.write(json.dumps({"warm_up": warm_up, "window": window.model_dump()}) + "\n")
            progress.flush()

        # A target that is never met: the whole budget is measured, as long as the other side measures.
        result = measure(
            step, device, budget_s=seconds, target=1e-9, check=step.check_finite, on_window=on_window
        )
    return sum(w.units for w in result.windows) / sum(w.seconds for w in result.windows)


def bare(step: TrainingStep, device: TorchDevice, seconds: float) -> float:
    """Units per second of a loop by hand."""
    device.synchronize()
    units, start = 0.0, MONOTONIC()
    while MONOTONIC() - start < seconds:
        units += step()
    device.synchronize()
    return units / (MONOTONIC() - start)


def main() -> None:
    """Alternate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet50-v1.5")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=1, help="one is least disturbed by other work")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = TorchDevice(available_kinds()[0])
    job = Job(
        network=options.network,
        size=options.size,
        batch_size=options.batch_size,
        precision=options.precision,
    )
    step = TrainingStep(registry.load(options.network), job, device)
    bare(step, device, options.seconds / 2)
    ratios = []
    for pair in range(options.pairs):
        # Which side goes first alternates too, so that a drift falls on both alike.
        sides = [harness, bare] if pair % 2 else [bare, harness]
        rates = {side.__name__: side(step, device, options.seconds) for side in sides}
        ratios.append(rates["harness"] / rates["bare"])
        print(f"harness {rates['harness']:10.2f}/s   bare {rates['bare']:10.2f}/s   ratio {ratios[-1]:.4f}")
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    print(f"median ratio {statistics.median(ratios):.4f}, standard deviation of the pairs {spread:.4f}")


if __name__ == "__main__":
    main()
