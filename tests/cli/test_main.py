"""The command line as a person or a script meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from accelmark.store import Store
from tests.records import record
from tests.run.conftest import Run, accelmark  # noqa: F401 - a fixture

HEAVY = ("torch", "torchvision", "timm", "duckdb", "pyarrow", "scipy", "numpy")


@pytest.mark.parametrize(
    ("words", "banned"),
    [
        (["--help"], (*HEAVY, "pydantic")),
        (["run", "--help"], HEAVY),
        (["list", "networks"], HEAVY),
        (["list", "suites", "--json"], HEAVY),
        (["compare", "--published", "lambda-2021-08", "--json"], HEAVY),
        (["doctor", "--json"], ("torch", "torchvision", "timm")),
        (["run", "lambda", "--size", "tiny", "--dry-run"], ("torch", "torchvision", "timm")),
    ],
)
def test_what_a_verb_imports(words: list[str], banned: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['accelmark', *{words!r}]\n"
        "from accelmark.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('IMPORTED', [name for name in {banned!r} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "IMPORTED []"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "resnet50"], 2, "did you mean resnet50-v1 or resnet50-v1.5"),
        (["run", "lambda", "--precision", "fp33"], 2, "did you mean fp32"),
        (["run", "lambda", "--batch-size", "many"], 2, "give a number, default, max, best"),
        (["run", "lambda", "--accelerators", "0"], 2, "no whole number"),
        (["run", "lambda", "--accelerators", "1,,2"], 2, "empty item"),
        (["run", "lambda", "--time-budget", "soon"], 2, "write it like 5s"),
        (["run", "lambda", "--target", "150%"], 2, "write it like 1%"),
        (["run", "lambda", "--device", "tpu"], 2, "no tpu device"),
        (["run", "nowhere.py"], 4, "does not exist"),
        (["run", "lambda", "--engine", "tensort"], 2, "did you mean tensorrt"),
        (["run", "lambda", "--sise", "tiny"], 2, "--sise"),
        (["lst", "networks"], 2, "lst"),
        (["list", "network"], 2, "did you mean networks"),
        (["show", "nowhere"], 4, "does not exist"),
        (["show", ".", "--status", "okay"], 2, "did you mean ok"),
        (["import", "lambda-cvs", "."], 2, "did you mean lambda-csv"),
        (["compare"], 2, "nothing to compare"),
        (["compare", "--published", "lambda-2021"], 2, "did you mean lambda-2021-08"),
    ],
)
def test_wrong_words_give_one_sentence_and_an_exit_code(
    accelmark: Run,  # noqa: F811
    words: list[str],
    code: int,
    said: str,
) -> None:
    result = accelmark(*words)
    assert result.returncode == code, result.stderr
    assert said in result.stderr


def test_list_networks_as_json(accelmark: Run) -> None:  # noqa: F811
    networks = json.loads(accelmark("list", "networks", "--json").stdout)
    by_name = {network["name"]: network for network in networks}
    assert by_name["resnet50-v1.5"]["parameters"] == 25_557_032
    assert by_name["transformer-xl-base"]["sizes"]["full-softmax"]["parameters"] == 191_948_759
    assert set(by_name["ssd300-resnet50"]) >= {"unit", "dataset", "quality_target", "paper", "sizes"}


def test_show_prints_value_interval_unit_and_status(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    Store(tmp_path / "r").write(record())
    result = accelmark("show", "r")
    assert result.returncode == 0
    heading, line = result.stdout.splitlines()
    assert heading.startswith("network ")
    assert heading.split()[-6:] == ["throughput", "unit", "n", "status", "system", "note"]
    assert "100.000 ± 0  images/s  20 in 1  ok      test machine" in line


def test_show_reads_the_rest_and_says_what_is_broken(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    Store(tmp_path / "r").write(record())
    (tmp_path / "r" / "broken.json").write_text('{\n "id": "x",\n oops\n}')
    for words in (("show", "r"), ("show", "r", "--json")):
        result = accelmark(*words)
        assert result.returncode == 4
        assert "broken.json:3: not valid JSON" in result.stderr
        assert "resnet50-v1.5" in result.stdout


def test_hostile_names_reach_no_terminal(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    hostile = record("../../x\x1b[2J")
    job = hostile.job.model_copy(update={"network": "evil\x1b]0;title\x07\u202e[red]x[/red]"})
    Store(tmp_path / "r").write(hostile.replace(job=job, reasons=["\x1b[31m" + "A" * 10_000]))
    result = accelmark("show", "r")
    assert not set(result.stdout) & set("\x1b\x07\u202e")
    assert "evil\\u001b]0;title\\u0007\\u202e[red]x[/red]" in result.stdout
    assert len(result.stdout) < 2000
    assert not set(accelmark("show", "r", "--json").stdout) & set("\x1b\x07")


def test_show_json_is_a_list_of_records(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    Store(tmp_path / "r").write_many([record("a"), record("b")])
    shown = json.loads(accelmark("show", "r", "--json").stdout)
    assert [entry["id"] for entry in shown] == ["a", "b"]
    assert shown[0]["metrics"]["throughput"]["value"] == 100.0
    assert json.loads(accelmark("show", "r", "--json", "--network", "ncf").stdout) == []


def test_an_unwritable_folder_stops_before_measuring(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "file").write_text("")
    result = accelmark("run", "quick", "--out", "file")
    assert result.returncode == 6
    assert "cannot keep results in file" in result.stderr
    assert "measuring" not in result.stderr


def test_measuring_without_pytorch_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, p=None: None if n == 'torch' else real(n, p)\n"
        "sys.argv = ['accelmark', 'run', 'quick']\n"
        "from accelmark.cli.main import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 5
    assert "pip install 'accelmark[pytorch]'" in result.stderr


def test_a_dry_run_lists_every_cell_of_the_study(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    listed = json.loads(accelmark("run", "lambda", "--size", "tiny", "--dry-run", "--json").stdout)
    cells = {(job["network"], job["precision"], job["accelerators"]) for job in listed}
    assert len(cells) == len(listed)
    assert len({network for network, _, _ in cells}) == 5
    assert all(job["unsupported"] is None for job in listed if job["precision"] == "fp32")
    assert list(tmp_path.glob("*")) in ([], [tmp_path / "cache"])


def test_import_prints_records_as_json(accelmark: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "pytorch-train-throughput-fp32.csv").write_text(
        "name_gpu,num_gpu,ssd,resnet50\n2x RTX 3090,2.0,265.0,0.0\n"
    )
    records = json.loads(accelmark("import", "lambda-csv", ".", "--out", "r", "--json").stdout)
    assert [(r["job"]["network"], r["job"]["accelerators"]) for r in records] == [("ssd300-resnet50", 2)]
    assert records[0]["metrics"]["throughput"]["value"] == 265.0
