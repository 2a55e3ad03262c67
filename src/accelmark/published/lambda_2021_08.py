"""Lambda's study of August 2021: the 40 figures that its eight ratios rest on.

The page prints ratios only. The figures are those of its tables in the repository that it names, as they
stood in July 2021; `lambda_2021_08.csv` gives each one's file, line and column there. What the page says
about software and precision holds for all of them.
"""

from __future__ import annotations

import csv
from importlib import resources

from accelmark.job import Job
from accelmark.published import SETS
from accelmark.record import Metrics, Origin, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Software, System

SECTION = "github.com/lambdal/deeplearning-benchmark, pytorch training throughput, July 2021"


def read() -> list[Record]:
    """The set's Records, in the order of the file."""
    text = resources.files("accelmark.published").joinpath("lambda_2021_08.csv").read_text(encoding="utf-8")
    return [_record(row) for row in csv.DictReader(text.splitlines())]


def _record(row: dict[str, str]) -> Record:
    published = SETS["lambda-2021-08"]
    accelerators = int(row["accelerators"])
    file, line, column = row["source"].split(":")
    # In ids the precision is written as the source writes it, so that an id can be found there.
    source_precision = file.removesuffix(".csv").rpartition("-")[2]
    board = row["accelerator"].lower().replace(" ", "-")
    source_name = row["accelerator"] if accelerators == 1 else f"{accelerators}x {row['accelerator']}"
    return Record(
        id=f"{published.name}/{source_precision}/{accelerators}x-{board}/{row['network']}",
        source=Source.PUBLISHED,
        status=Status.OK,
        job=Job(
            network=row["network"],
            size=row["size"],
            precision=row["precision"],
            batch_size=int(row["batch_size"]),
            accelerators=accelerators,
            data=None,  # neither the page nor the tables say
        ),
        system=System(
            name=row["accelerator"],
            accelerator=Accelerator(
                name=row["accelerator"], kind="cuda", count=accelerators, driver="460.27.04"
            ),
            os="Ubuntu 18.04",
            container="NGC PyTorch 20.10",
        ),
        software=Software(framework="1.7.0a0+7036e91", cuda="11.1.0", cudnn="8.0.4"),
        metrics=Metrics(throughput=Throughput(value=float(row["throughput"]), unit=row["unit"])),
        origin=Origin(
            page=f"{published.title}, {published.date:%Y-%m-%d}",
            file=file,
            section=SECTION,
            line=int(line),
            row=f"{source_name}: {column} {row['throughput']}",
        ),
    )
