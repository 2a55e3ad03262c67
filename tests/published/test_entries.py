"""The pages' 44 entries: all there, and each a network of this build with its task."""

import csv
from pathlib import Path

import pytest

from accelmark import published
from accelmark.networks.registry import catalog
from accelmark.published.entries import entries, of

SHARED = Path(__file__).resolve().parents[3] / "shared"


def test_every_entry_is_a_network_of_this_build_and_one_of_its_tasks() -> None:
    assert len(entries()) == 44
    for name, uses in entries().items():
        assert uses, name
        for use in uses:
            tasks = catalog()[use.network].tasks
            assert (use.task in tasks) if tasks else (use.task is None), name


def test_every_network_is_of_an_entry() -> None:
    assert all(of(network) for network in catalog())
    assert of("unet-3d") == ["3D-UNet"]
    assert len(of("bert-large")) == 9
    assert of("nothing") == []


def test_every_published_row_is_of_an_entry_s_network_and_task() -> None:
    known = {use for uses in entries().values() for use in uses}
    services = {"text-to-speech"}  # whose networks are not named
    for record in published.load("nvidia-2021-04"):
        network, task = record.job.network, record.job.parameters.get("task")
        if network not in services:
            assert any(use.network == network and use.task in (task, None) for use in known), record.id


def test_the_entries_are_those_of_the_pages() -> None:
    path = SHARED / "networks.csv"
    if not path.exists():
        pytest.skip("the table of the pages' networks is not on this machine")
    with path.open(encoding="utf-8") as file:
        assert [row["network"] for row in csv.DictReader(file)] == list(entries())
