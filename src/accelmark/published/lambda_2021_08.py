"""Lambda's study of August 2021: the eight ratios of the page, and the 40 figures that they rest on.

The page prints ratios only. The figures are those of its tables in the repository that it names, as they
stood in July 2021; `lambda_2021_08_figures.csv` gives each one's file, line and column there. What the page
says about software and precision holds for all of them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from importlib import resources

from accelmark.job import Job
from accelmark.published import SETS
from accelmark.record import Metrics, Origin, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Software, System

NAME = "lambda-2021-08"
PAGE = "RTX A6000 vs RTX 3090 Deep Learning Benchmarks, 2021-08-09"
SECTION = "github.com/lambdal/deeplearning-benchmark, pytorch training throughput, July 2021"

#: The page's words for the two halves of its list, as names of networks that stand for an average.
AVERAGES = {"convnets": "convnets", "transformers": "language-models"}
#: Its footnote: 32-bit means TF32, mixed means automatic mixed precision.
PRECISIONS = {"TF32": "tf32", "AMP": "fp16"}


def read() -> list[Record]:
    """The page's eight ratios, in its order: speed of the A6000 over the 3090 at the same number of them."""
    return [_ratio(row) for row in _rows("ratios")]


def figures() -> list[Record]:
    """The throughputs that the ratios are formed of, in the order of the file."""
    return [_figure(row) for row in _rows("figures")]


def _rows(table: str) -> Iterator[dict[str, str]]:
    path = resources.files("accelmark.published").joinpath(f"lambda_2021_08_{table}.csv")
    yield from csv.DictReader(path.read_text(encoding="utf-8").splitlines())


def _groups() -> Mapping[str, tuple[str, ...]]:
    study = SETS[NAME].study
    return study.groups if study else {}


def _system(board: str, accelerators: int) -> System:
    return System(
        name=board,
        accelerator=Accelerator(name=board, kind="cuda", count=accelerators, driver="460.27.04"),
        os="Ubuntu 18.04",
        container="NGC PyTorch 20.10",
    )


def _ratio(row: dict[str, str]) -> Record:
    accelerators = int(row["gpu_count"])
    network = AVERAGES[row["network_type"]]
    return Record(
        id=f"{NAME}/{row['source_line']}",
        source=Source.PUBLISHED,
        status=Status.OK,
        job=Job(
            network=network,
            parameters={
                "networks": ",".join(_groups()[network.replace("-", " ")]),
                "over": row["denominator"],
                # "different batch sizes": each board ran the largest that fits into its memory.
                "batch_size_rule": "max",
            },
            framework="pytorch",
            precision=PRECISIONS[row["precision_format"]],
            accelerators=accelerators,
        ),
        system=_system(row["numerator"], accelerators),
        software=Software(framework="PyTorch 1.7.0a0+7036e91", cuda="11.1.0", cudnn="8.0.4"),
        metrics=Metrics(ratio=float(row["ratio"])),
        # Peer-to-peer transfers over PCIe work on the A6000 and not on the 3090.
        conditions={"peer_to_peer": f"{row['numerator']} only"} if accelerators > 1 else {},
        origin=Origin(page=PAGE, section=row["section"], line=int(row["source_line"]), row=row["raw"]),
    )


def _figure(row: dict[str, str]) -> Record:
    accelerators = int(row["accelerators"])
    file, line, column = row["source"].split(":")
    # In ids the precision is written as the source writes it, so that an id can be found there.
    source_precision = file.removesuffix(".csv").rpartition("-")[2]
    board = row["accelerator"].lower().replace(" ", "-")
    source_name = row["accelerator"] if accelerators == 1 else f"{accelerators}x {row['accelerator']}"
    return Record(
        id=f"{NAME}/{source_precision}/{accelerators}x-{board}/{row['network']}",
        source=Source.PUBLISHED,
        status=Status.OK,
        job=Job(
            network=row["network"],
            size=row["size"],
            framework="pytorch",
            precision=row["precision"],
            batch_size=int(row["batch_size"]),
            accelerators=accelerators,
        ),
        system=_system(row["accelerator"], accelerators),
        software=Software(framework="PyTorch 1.7.0a0+7036e91", cuda="11.1.0", cudnn="8.0.4"),
        metrics=Metrics(throughput=Throughput(value=float(row["throughput"]), unit=row["unit"])),
        origin=Origin(
            page=PAGE,
            file=file,
            section=SECTION,
            line=int(line),
            row=f"{source_name}: {column} {row['throughput']}",
        ),
    )
