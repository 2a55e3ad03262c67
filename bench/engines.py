"""Inference through accelmark beside each engine's own tool or a bare loop, alternating in one run.

    python bench/engines.py
    python bench/engines.py --networks resnet50-v1.5 --batch-sizes 1 --pairs 4

PyTorch and ONNX Runtime stand beside a loop that does nothing but call; OpenVINO beside `benchmark_app` of
its wheel, on the same model file, with the same threads and one stream. Prints a row of a table for each:
samples/s of both sides, the median ratio (accelmark / other), its least and largest.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import UnsupportedError
from accelmark.job import Job
from accelmark.measure.clock import MONOTONIC
from accelmark.measure.loop import measure
from accelmark.networks import registry
from accelmark.scenarios.inference import Answering, Timed
from accelmark.scenarios.ready import ready

DEVICE = TorchDevice("cpu")


def through_accelmark(answering: Answering, seconds: float) -> float:
    """Samples per second as a worker measures them."""
    timed = Timed(answering)
    with timed.running(DEVICE) as (step, device):
        result = measure(step, device, budget_s=seconds, target=1e-9, on_start=timed.forget)
    return sum(w.units for w in result.windows) / sum(w.seconds for w in result.windows)


def bare(answering: Answering, seconds: float) -> float:
    """Samples per second of a loop over the engine's own call."""
    call, placed, calls = own_call(answering), answering.placed, 0
    start = MONOTONIC()
    while MONOTONIC() - start < seconds:
        call(placed[calls % len(placed)])
        calls += 1
    return calls * answering.rows / (MONOTONIC() - start)


def own_call(answering: Answering) -> Callable[[Any], Any]:
    """The engine's call without anything of ours."""
    prepared: Any = answering.prepared
    if hasattr(prepared, "session"):
        session = prepared.session
        return lambda feeds: session.run(None, feeds)
    module = prepared.module

    def call(inputs: Any) -> Any:
        with torch.inference_mode():
            return module(*inputs)

    return call


def benchmark_app(model: Path, answering: Answering, seconds: float, threads: int) -> float:
    """Samples per second of OpenVINO's own tool."""
    words = ["-m", str(model), "-d", "CPU", "-api", "sync", "-hint", "none"]
    words += ["-nstreams", "1", "-nthreads", str(threads), "-t", str(max(1, round(seconds)))]
    words += ["-infer_precision", "f32"]
    tool = Path(sys.executable).with_name("benchmark_app")
    result = subprocess.run([tool, *words], capture_output=True, text=True, check=True)
    found = re.search(r"Throughput:\s*([0-9.]+)\s*FPS", result.stdout)
    count = re.search(r"Count:\s*([0-9]+)\s*iterations", result.stdout)
    duration = re.search(r"Duration:\s*([0-9.]+)\s*ms", result.stdout)
    if found is None or count is None or duration is None:
        raise SystemExit(f"benchmark_app printed no throughput:\n{result.stdout[-2000:]}")
    # By its own count of calls, because what it takes for the batch depends on the layout that it guesses.
    return int(count[1]) * answering.rows / (float(duration[1]) / 1000)


def saved(answering: Answering, folder: Path) -> Path:
    """The model file that the engine was made of, as OpenVINO writes it."""
    import openvino

    from accelmark.engines.openvino import quantised

    prepared: Any = answering.prepared
    model = openvino.Core().read_model(folder / "network.onnx")
    if prepared.load.precision == "int8":
        model = quantised(prepared.load, model)
    openvino.save_model(model, folder / "compared.xml", compress_to_fp16=False)
    return folder / "compared.xml"


def compare(job: Job, options: argparse.Namespace) -> str:
    """Alternate, and say how it went as a row of the table."""
    network = registry.load(job.network)
    with tempfile.TemporaryDirectory() as folder:
        try:
            answering = Answering(ready(network, job, DEVICE.torch_device), job, DEVICE, Path(folder))
        except UnsupportedError as error:
            return f"| {job.network} | {job.batch_size} | {job.engine} | {job.precision} | | | {error} | |"
        answering.outputs()
        if job.engine == "openvino":
            model = saved(answering, Path(folder))

            def other(answering: Answering, seconds: float) -> float:
                return benchmark_app(model, answering, seconds, options.threads)
        else:
            other = bare
        pairs = []
        for pair in range(options.pairs):
            # Which side goes first alternates, so that a drift falls on both alike.
            sides = (through_accelmark, other) if pair % 2 == 0 else (other, through_accelmark)
            rates = {side: side(answering, options.seconds) for side in sides}
            pairs.append((rates[through_accelmark], rates[other]))
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return (
        f"| {job.network} | {job.batch_size} | {job.engine} | {job.precision} | {ours:.4g} | {theirs:.4g} "
        f"| {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |"
    )


def main() -> None:
    """Compare every combination."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="*", default=["resnet50-v1.5", "bert-base"])
    parser.add_argument("--engines", nargs="*", default=["eager", "onnxruntime", "openvino"])
    parser.add_argument("--precisions", nargs="*", default=["fp32", "int8"])
    parser.add_argument("--batch-sizes", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--size", default="full")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each side in each pair")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| network | batch | engine | precision | accelmark | other, samples/s | ratio | from, to |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.networks:
        entry = registry.entry(name)
        for batch_size in options.batch_sizes:
            for engine in options.engines:
                for precision in options.precisions:
                    job = Job(
                        network=name,
                        scenario="inference",
                        size=options.size,
                        engine=engine,
                        precision=precision,
                        batch_size=batch_size,
                        sequence_length=entry.sizes[options.size].sequence_length,
                    )
                    print(compare(job, options), flush=True)


if __name__ == "__main__":
    main()
