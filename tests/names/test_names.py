"""Canonical names: every spelling of the published pages has one, and what is unknown stays as it is."""

from __future__ import annotations

import datetime

import pytest

from accelmark import names


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("A100-SXM-80GB", "A100-SXM4-80GB"),
        ("A100 SXM 80GB", "A100-SXM4-80GB"),
        ("A100 SXM-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("A100 SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-40GB (400W)", "A100-SXM4-40GB"),
        ("A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A100 PCIe-40GB", "A100-PCIe-40GB"),
        ("V100 SXM2-32GB", "V100-SXM2-32GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("NVIDIA T4", "T4"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA H200", "H200-SXM-141GB"),
        ("Some Board 9000", "Some Board 9000"),
    ],
)
def test_boards(spelling: str, canonical: str) -> None:
    assert names.board(spelling) == canonical


def test_boards_that_differ_stay_apart() -> None:
    spelled = ["A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-40GB", "A10", "A30", "V100-SXM2-16GB"]
    assert len({names.board(board) for board in spelled}) == len(spelled)


@pytest.mark.parametrize(
    ("of", "spelling", "canonical"),
    [
        (names.server, "GIGABYTE G482-Z52-00", "Gigabyte G482-Z52-00"),
        (names.server, "DGX-Station-A100", "DGX Station A100"),
        (names.dataset, "Imagenet2012", "ImageNet2012"),
        (names.dataset, "SQuaD v1.1", "SQuAD v1.1"),
        (names.dataset, "wmt14-en-de", "WMT14 English-German"),
        (names.unit, "images/sec", "images/s"),
        (names.unit, "total tokens/sec", "tokens/s"),
        (names.unit, "samples/sec/watt", "samples/s/W"),
        (names.precision, "Mixed", "fp16"),
        (names.precision, "INT8", "int8"),
        (names.framework, "Tensorflow", "tensorflow"),
    ],
)
def test_other_names(of: object, spelling: str, canonical: str) -> None:
    assert callable(of)
    assert of(spelling) == canonical
    assert of(canonical) == canonical


@pytest.mark.parametrize("file", ["boards", "spellings"])
def test_no_spelling_means_two_things(file: str) -> None:
    content = names.read(file)
    for kind in ["boards"] if file == "boards" else list(content):
        table = content if file == "boards" else content[kind]
        seen: dict[str, str] = {}
        for name, value in table.items():
            others = value["spellings"] if file == "boards" else value
            for spelling in {name, *others}:
                key = names._key(spelling)
                assert seen.setdefault(key, name) == name, f"{kind}: {spelling} means {seen[key]} and {name}"


def test_every_peak_has_a_source_and_a_date_and_sparse_is_about_twice_dense() -> None:
    for name, board in names.read("boards").items():
        assert board["source"], name
        assert isinstance(board["since"], datetime.date), name
        assert board["power_w"] > 0
        for precision, sparse in board.get("sparse", {}).items():
            assert sparse / board["peak"][precision] == pytest.approx(2, rel=0.01), (name, precision)


def test_peaks_that_everybody_knows() -> None:
    boards = names.read("boards")
    assert boards["A100-SXM4-80GB"]["peak"]["fp16"] == 312
    assert boards["V100-SXM2-16GB"]["peak"]["int8"] == pytest.approx(4 * 15.7)
    assert boards["T4"]["peak"] == {"fp32": 8.1, "fp16": 65, "int8": 130}
