"""`accelmark compare` and `accelmark import`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from accelmark.cli.compare import compare
from accelmark.cli.import_ import import_
from accelmark.errors import AccelmarkError, CannotWriteError, UnreadableInputError, UsageError
from accelmark.job import Job
from accelmark.record import Metrics, Record, Source, Status, Throughput
from accelmark.store import Store
from accelmark.system import Accelerator, System

TABLES = Path(__file__).resolve().parents[3] / "shared" / "lambda" / "csv-2021-07"

app = typer.Typer()
app.command("compare")(compare)
app.command("import")(import_)


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def good(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exception is None, result.exception
    return result.stdout


def error(kind: type[AccelmarkError], *arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, kind), result.exception
    message = str(result.exception)
    assert "\n" not in message
    return message


def keep(folder: Path, *figures: tuple[str, str, float], half: float | None = None, **job: Any) -> Path:
    for system, network, value in figures:
        ci95 = (value * (1 - half), value * (1 + half)) if half else None
        record = Record(
            id=f"{len(list(folder.iterdir())):03}" if folder.exists() else "000",
            source=Source.MEASURED,
            status=Status.OK,
            job=Job(**{"network": network, "framework": "pytorch", "precision": "fp32", **job}),
            system=System(name=system, accelerator=Accelerator(name=system)),
            metrics=Metrics(throughput=Throughput(value=value, unit="images/s", ci95=ci95)),
        )
        Store(folder).write(record)
    return folder


def test_lambdas_eight_ratios_as_json() -> None:
    ratios = json.loads(good("compare", "--published", "lambda-2021-08", "--json"))
    assert [(r["group"], r["accelerators"], r["precision"], r["ratio"]) for r in ratios] == [
        ("convnets", 1, "32-bit", 0.9235),
        ("convnets", 1, "mixed", 1.0142),
        ("convnets", 8, "32-bit", 1.1336),
        ("convnets", 8, "mixed", 1.1379),
        ("language models", 1, "32-bit", 1.3421),
        ("language models", 1, "mixed", 1.3365),
        ("language models", 8, "32-bit", 1.3564),
        ("language models", 8, "mixed", 1.3323),
    ]
    last = ratios[-1]
    assert (last["numerator"], last["denominator"], last["reference"]) == (
        "RTX A6000",
        "RTX 3090",
        "RTX 3090:tf32",
    )
    assert last["normalised"] == {"numerator": 19.1924, "denominator": 14.406}
    assert (last["ci95"], last["precisions"], last["missing"], last["notes"]) == (None, ["fp16"], [], [])
    assert last["networks"][0] == {
        "network": "transformer-xl-base",
        "size": "full-softmax",
        "numerator": 16.8365,
        "denominator": 14.0468,
        "records": {
            "numerator": "lambda-2021-08/fp16/8x-rtx-a6000/transformer-xl-base",
            "denominator": "lambda-2021-08/fp16/8x-rtx-3090/transformer-xl-base",
        },
    }


def test_lambdas_eight_ratios_as_a_table() -> None:
    lines = good("compare", "--published", "lambda-2021-08").splitlines()
    assert lines[:12] == [
        "Throughput over that of one RTX 3090 at tf32, averaged over each group of networks "
        "(arithmetic mean);",
        "ratio: the system's average over that of RTX 3090 at the same accelerators and precision.",
        "",
        "group            system     accelerators  precision  normalised  reference  ratio",
        "convnets         RTX A6000             1  32-bit           0.92       1.00  0.92x",
        "convnets         RTX A6000             1  mixed            1.47       1.44  1.01x",
        "convnets         RTX A6000             8  32-bit           7.22       6.37  1.13x",
        "convnets         RTX A6000             8  mixed           11.06       9.72  1.14x",
        "language models  RTX A6000             1  32-bit           1.34       1.00  1.34x",
        "language models  RTX A6000             1  mixed            2.44       1.83  1.34x",
        "language models  RTX A6000             8  32-bit          10.70       7.89  1.36x",
        "language models  RTX A6000             8  mixed           19.19      14.41  1.33x",
    ]
    figures = [line for line in lines if line.startswith(("ssd", "resnet", "mask", "transformer"))]
    assert len(figures) == 40
    first = "ssd300-resnet50 RTX A6000 1 tf32 144 135 images/s 0.99"
    assert " ".join(figures[0].split()) == first


def test_a_table_of_measured_records(tmp_path: Path) -> None:
    folder = keep(
        tmp_path / "r", ("Old", "resnet", 100), ("Old", "bert", 10), ("New", "resnet", 150), half=0.04
    )
    keep(folder, ("New", "bert", 30), half=0.04)
    assert good("compare", folder).splitlines()[3:] == [
        "group           system  accelerators  precision  normalised  reference  ratio  95 % interval",
        "all 2 networks  New                1  32-bit           2.12       1.00  2.12x  2.04 to 2.21",
        "resnet          New                1  32-bit           1.50       1.00  1.50x  1.42 to 1.59",
        "bert            New                1  32-bit           3.00       1.00  3.00x  2.84 to 3.17",
        "",
        "Each network:",
        "",
        "network  system  accelerators  precision  batch  throughput  unit      normalised",
        "resnet   New                1  fp32           -     150 ± 6  images/s        1.50",
        "resnet   Old                1  fp32           -     100 ± 4  images/s        1.00",
        "bert     New                1  fp32           -  30.0 ± 1.2  images/s        3.00",
        "bert     Old                1  fp32           -  10.0 ± 0.4  images/s        1.00",
        "",
        "note: the reference is Old:fp32, the first system read; --normalize-to sets it",
    ]


def test_the_mean_of_the_study_on_request(tmp_path: Path) -> None:
    folder = keep(
        tmp_path / "r",
        *(("Old", network, 100) for network in ("a", "b")),
        ("New", "a", 150),
        ("New", "b", 300),
    )
    for words, expected in (((), 4.5**0.5), (("--mean", "arithmetic"), 2.25)):
        ratio = json.loads(good("compare", folder, *words, "--json"))[0]
        assert ratio["ratio"] == pytest.approx(expected, abs=1e-4)
        assert ratio["mean"] == (words[1] if words else "geometric")
    assert "unknown mean 'median'" in error(UsageError, "compare", folder, "--mean", "median")


def test_other_batches_stay_out_of_a_mean_unless_they_are_allowed(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Old", "a", 100), batch_size=8)
    keep(folder, ("New", "a", 150), batch_size=16)
    entry = json.loads(good("compare", folder, "--json"))[0]
    assert entry["ratio"] is None
    assert entry["missing"] == ["New: a: not comparable: batch size 16 ≠ 8"]
    allowed = json.loads(good("compare", folder, "--allow", "batch_size", "--json"))[0]
    assert (allowed["ratio"], allowed["allowed"]) == (1.5, ["batch_size"])
    assert "note: allowed to differ: batch_size" in good("compare", folder, "--allow", "batch_size")


def test_groups_and_reference_can_be_chosen(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Old", "resnet", 100), ("Old", "bert", 10), ("New", "resnet", 150))
    ratios = json.loads(
        good(
            "compare",
            folder,
            "--normalize-to",
            "New:tf32",
            "--group",
            "a=resnet",
            "--group",
            "b=resnet,bert",
            "--json",
        )
    )
    assert [(r["group"], r["numerator"], r["ratio"]) for r in ratios] == [
        ("a", "Old", 0.6667),
        ("b", "Old", None),
    ]
    assert ratios[1]["missing"] == [
        "Old: bert: no Record of the reference New:fp32",
        "New: bert: no Record of the reference New:fp32",
    ]
    assert ratios[0]["notes"] == [
        "New has no tf32 Records on one accelerator; its fp32 ones are the reference"
    ]


def test_a_small_ratio_is_not_printed_as_nothing(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("GPU", "resnet", 2500), ("CPU", "resnet", 3))
    assert " 0.0012x" in good("compare", folder)
    assert json.loads(good("compare", folder, "--json"))[0]["ratio"] == 0.0012
    assert (
        json.loads(good("compare", keep(folder, ("CPU", "resnet", 0.00123)), "--json"))[0]["ratio"]
        == 4.92e-07
    )


def test_ones_own_records_stand_beside_the_published(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Mine", "resnet50-v1.5", 942), precision="tf32")
    ratios = json.loads(good("compare", folder, "--published", "lambda-2021-08", "--json"))
    assert len(ratios) == 8 + 1
    assert ratios[-1]["numerator"] == "Mine"
    assert ratios[-1]["ratio"] is None
    alone = ["--group", "one=resnet50-v1.5", "--json"]
    ratios = json.loads(good("compare", folder, "--published", "lambda-2021-08", *alone))
    assert [r["ratio"] for r in ratios if r["numerator"] == "Mine"] == [2.0]


def test_a_tiny_record_is_not_compared_with_the_published(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Mine", "resnet50-v1.5", 942), precision="tf32", size="tiny")
    output = good("compare", folder, "--published", "lambda-2021-08")
    assert "Mine: resnet50-v1.5: not comparable: size tiny, not full" in output


def test_text_from_records_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[31mred\u202e [bold]"
    folder = keep(
        tmp_path / "r", (evil, "resnet", 100), ("[/]\x07", "resnet\x1b]0;x", 5), ("New", "resnet", 3)
    )
    for arguments in ([], ["--json"], ["--group", "g=resnet"]):
        output = good("compare", folder, *arguments)
        assert not {"\x1b", "\x07", "\u202e"} & set(output)
        assert "[bold]" in output


def test_a_file_that_is_no_record_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Old", "resnet", 100), ("New", "resnet", 150))
    (folder / "broken.json").write_text("{\n")
    result = call("compare", folder, "--json")
    assert json.loads(result.stdout)[0]["ratio"] == 1.5
    assert "broken.json" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to compare: give a folder"),
        (("--published", "lambda-2021"), "unknown published set 'lambda-2021'; did you mean lambda-2021-08"),
        (("--normalize-to", "RTX 3090"), "names no reference"),
        (("--normalize-to", "RTX A600:fp32"), "RTX A6000"),
        (("--normalize-to", "RTX 3090:fp8"), "unknown precision 'fp8'"),
        (("--group", "convnets"), "--group 'convnets' is not understood"),
        (("--group", "=resnet50-v1.5"), "is not understood"),
        (("--group", "a=resnet50-v1.5,"), "is not understood"),
        (("--group", "a=resnet50"), "unknown network 'resnet50'; did you mean resnet50-v1.5"),
        (("--group", "a=resnet50-v1.5@tiny"), "unknown size of resnet50-v1.5 'tiny'; known: full"),
        (("--group", "a=resnet50-v1.5,resnet50-v1.5"), "names a network twice"),
        (("--group", "a=resnet50-v1.5", "--group", "a=resnet50-v1.5"), "names 'a' twice"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    published = ("--published", "lambda-2021-08") if arguments and "--published" not in arguments else ()
    assert message in error(UsageError, "compare", *published, *arguments)


def test_folders_without_records(tmp_path: Path) -> None:
    assert "holds no Record that can be read" in error(UnreadableInputError, "compare", tmp_path)
    assert "does not exist" in error(UnreadableInputError, "compare", tmp_path / "absent")


def test_systems_with_nothing_in_common(tmp_path: Path) -> None:
    folder = keep(tmp_path / "r", ("Old", "resnet", 100), ("New", "bert", 150))
    assert "New has no network of the same size in common" in error(UsageError, "compare", folder)


def tables(folder: Path) -> Path:
    folder.mkdir()
    (folder / "pytorch-train-throughput-fp32.csv").write_text(
        "name_gpu,num_gpu,ssd,resnet50\nRTX 3090,1.0,137.0,471.0\nRTX A6000,1.0,135.0,0.0\n"
    )
    return folder


def test_import_writes_records_and_says_what_it_did_not_read(tmp_path: Path) -> None:
    output = good("import", "lambda-csv", tables(tmp_path / "in"), "--out", tmp_path / "out")
    assert output.startswith("3 Records from ")
    assert "1  the figure is 0: not run, or it did not fit in memory" in output
    assert "line 3 resnet50" in output
    assert "no batch sizes: pytorch-train-bs-fp32.csv is not there or not readable" in output
    again = json.loads(good("compare", tmp_path / "out", "--normalize-to", "RTX 3090:fp32", "--json"))
    assert [(r["group"], r["ratio"]) for r in again] == [("ssd300-resnet50", 0.9854)]


def test_import_of_nothing(tmp_path: Path) -> None:
    assert "holds no table" in error(UnreadableInputError, "import", "lambda-csv", tmp_path)
    assert "does not exist" in error(UnreadableInputError, "import", "lambda-csv", tmp_path / "absent")
    assert "unknown format 'csv'" in error(UsageError, "import", "csv", tmp_path)
    (tmp_path / "pytorch-train-throughput-fp16.csv").write_text("name_gpu,num_gpu,ssd\nRTX 3090,1.0,0\n")
    message = error(UnreadableInputError, "import", "lambda-csv", tmp_path, "--out", tmp_path / "out")
    assert "pytorch-train-throughput-fp16.csv:2: the figure is 0" in message
    assert not (tmp_path / "out").exists()


def test_import_into_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error(CannotWriteError, "import", "lambda-csv", tables(tmp_path / "in"), "--out", tmp_path / "file")


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"Lambda's tables are not here ({TABLES})")
def test_the_eight_ratios_after_importing_the_real_tables(tmp_path: Path) -> None:
    good("import", "lambda-csv", TABLES, "--out", tmp_path / "out")
    ratios = json.loads(
        good(
            "compare",
            tmp_path / "out",
            "--normalize-to",
            "RTX 3090:fp32",
            "--group",
            "convnets=ssd300-resnet50,resnet50-v1.5,mask-rcnn-r50-fpn",
            "--group",
            "language models=transformer-xl-base,transformer-xl-large",
            "--mean",
            "arithmetic",
            "--allow",
            "batch_size",
            "--json",
        )
    )
    found = [
        round(r["ratio"], 2) for r in ratios if r["numerator"] == "RTX A6000" and r["accelerators"] in (1, 8)
    ]
    assert found == [0.92, 1.01, 1.13, 1.14, 1.34, 1.34, 1.36, 1.33]
