"""How fast importers read long logs, and in how much memory: MB/s of one core, alternating over the formats.

Each format gets a log in its own real form, grown to --megabytes, and is read in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NOISE = "slurmstepd: launching rank 3 of 8 on node 0: NCCL INFO Channel 00 : 0[7000] -> 1[f000] via P2P/IPC\n"


def mllog(key: str, milliseconds: int, value: object, kind: str, **metadata: object) -> str:
    event = {
        "namespace": "",
        "time_ms": milliseconds,
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 1, **metadata},
    }
    return f":::MLLOG {json.dumps(event)}\n"


def training_log(megabytes: int) -> Iterator[str]:
    """MLPerf training: a launcher's text, and events of blocks and losses between start and stop."""
    yield mllog("submission_benchmark", 0, "resnet", "POINT_IN_TIME")
    yield mllog("run_start", 1_000, None, "INTERVAL_START")
    written, epoch = 0, 0
    while written < megabytes << 20:
        epoch += 1
        block = NOISE * 20 + mllog("epoch_start", 1_000 + epoch, None, "INTERVAL_START", epoch_num=epoch)
        written += len(block)
        yield block
    yield mllog("eval_accuracy", 2_000_000, 0.76, "POINT_IN_TIME", epoch_num=epoch)
    yield mllog("run_stop", 2_400_000, None, "INTERVAL_END", status="success")


def dllogger_log(megabytes: int) -> Iterator[str]:
    """DLLogger: a line of JSON for each iteration, and a summary."""
    head = {"timestamp": "1600000000.0", "datetime": "2020-09-13 12:26:40", "elapsedtime": "1.0"}
    parameters = {"arch": "resnet50", "batch_size": 256, "amp": True}
    yield "DLLL " + json.dumps({**head, "type": "LOG", "step": "PARAMETER", "data": parameters}) + "\n"
    unit = {"metric": "train.total_ips", "metadata": {"unit": "images/s"}}
    yield "DLLL " + json.dumps({**head, "type": "METADATA", **unit}) + "\n"
    written, step = 0, 0
    while written < megabytes << 20:
        step += 1
        data = {"train.loss": 6.9, "train.total_ips": 2750.0, "train.lr": 0.1}
        line = "DLLL " + json.dumps({**head, "type": "LOG", "step": [0, step], "data": data}) + "\n"
        written += len(line)
        yield line
    yield (
        "DLLL " + json.dumps({**head, "type": "LOG", "step": [], "data": {"train.total_ips": 2751.0}}) + "\n"
    )


def lambda_log(megabytes: int) -> Iterator[str]:
    """Lambda's logs: what the example prints, most of it not a figure."""
    written = 0
    while written < megabytes << 20:
        written += len(NOISE)
        yield NOISE
    yield "DLL 2021-02-05 12:00:00.000000 - () avg_img/sec : 471.69 median_img/sec : 471.7\n"


def detail_log(megabytes: int) -> Iterator[str]:
    """LoadGen's detail file: an event a line."""
    written = 0
    while written < megabytes << 20:
        line = mllog("loaded_qsl_set", written, [1, 2, 3], "POINT_IN_TIME")
        written += len(line)
        yield line


def read_training(folder: Path) -> object:
    from accelmark.importers import mllog as importer

    file = folder / "result_0.txt"
    return importer.read(file, file.name)


def read_dllogger(folder: Path) -> object:
    from accelmark.importers import dllogger

    return dllogger.read(folder / "result_0.txt")


def read_lambda(folder: Path) -> object:
    from accelmark.importers import lambda_logs

    task = folder / "RTX" / "PyTorch_SSD_AMP"
    task.mkdir(parents=True)
    (folder / "result_0.txt").rename(task / "05-02-2021_12-11-04.txt")
    return lambda_logs.read(folder)


def read_detail(folder: Path) -> object:
    from accelmark.importers import loadgen

    return loadgen.read_detail(folder / "result_0.txt")


FORMATS: dict[str, tuple[Callable[[int], Iterator[str]], Callable[[Path], object]]] = {
    "mlperf-training": (training_log, read_training),
    "mlperf-inference detail": (detail_log, read_detail),
    "dllogger": (dllogger_log, read_dllogger),
    "lambda-logs": (lambda_log, read_lambda),
}


def measure(name: str, megabytes: int) -> None:
    """In a process of its own: write the log, read it, print MB/s of CPU time and peak memory."""
    from accelmark.errors import UnreadableInputError

    make, read = FORMATS[name]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with (folder / "result_0.txt").open("w") as file:
            file.writelines(make(megabytes))
        size = (folder / "result_0.txt").stat().st_size
        start = time.process_time()
        try:
            read(folder)
        except UnreadableInputError as error:
            print(f"{name}: {error}", file=sys.stderr)
        seconds = time.process_time() - start
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"mb_per_s": size / 1e6 / seconds, "peak_mib": peak_mib}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=FORMATS)
    arguments = parser.parse_args()
    if arguments.only:
        measure(arguments.only, arguments.megabytes)
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in FORMATS}
    for _ in range(arguments.rounds):
        for name, results in found.items():
            command = [sys.executable, __file__, "--only", name, "--megabytes", str(arguments.megabytes)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results.append(json.loads(output))
    for name, results in found.items():
        rates = [result["mb_per_s"] for result in results]
        peak = max(result["peak_mib"] for result in results)
        print(
            f"{name:24}  {statistics.median(rates):6.0f} MB/s  ({min(rates):.0f} to {max(rates):.0f})  "
            f"peak {peak:.0f} MiB"
        )


if __name__ == "__main__":
    main()
