"""Which configuration a Job gets of a network, and what a network has that says no more than it must."""

import os
import subprocess
import sys

import pytest
import torch

from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import UsageError
from accelmark.job import Job, Settings
from accelmark.measure.loop import Alone
from accelmark.networks import registry
from accelmark.networks.base import Config, Network
from accelmark.scenarios import training
from accelmark.scenarios.training import TrainingStep


class Padded(Network):
    """Sentences of 1, 2, 3, ... words in a batch as long as the longest, each batch anew."""

    name = "padded"
    unit = "words"
    sizes = {"tiny": Config(batch_size=4)}

    def build(self, config):
        return torch.nn.Linear(1, 1)

    def batch(self, config, batch_size, generator):
        return (torch.arange(batch_size)[:, None] >= torch.arange(batch_size)).float()

    def units(self, batch):
        return int(batch.sum())

    def padded_units(self, batch):
        return batch.numel()

    def loss(self, module, batch, state):
        return module(batch[:, :1]).square().mean(), None

    def optimizer(self, module, config):
        return torch.optim.SGD(module.parameters(), lr=0.1)

    def inference_inputs(self, config, batch_size, generator):
        return (self.batch(config, batch_size, generator)[:, :1],)


def test_throughput_counts_no_padding_and_says_how_much_there_was():
    step = TrainingStep(Padded(), Job(network="padded", size="tiny"), TorchDevice("cpu"))
    assert step() == 1 + 2 + 3 + 4
    assert step.padding_share == 1 - 10 / 16
    settings = Settings(time_budget_s=0.3, window_s=0.05, repeats=1)
    outcome = training.run(
        Padded(), Job(network="padded", size="tiny"), settings, TorchDevice("cpu"), Alone(), lambda *_: None
    )
    assert outcome.metrics.padding_share == 1 - 10 / 16
    assert all(window.units == 10 * window.steps for window in outcome.samples.windows)


class TwoTasks(Network):
    name = "two-tasks"
    tasks = {"answers": 384, "masks": 128}
    sizes = {
        "full": Config(batch_size=8, parameters=1000, sequence_length=384, task="answers"),
        "tiny": Config(batch_size=2, sequence_length=16, task="answers"),
    }

    def build(self, config):
        return torch.nn.Linear(2, 2)

    def batch(self, config, batch_size, generator):
        return torch.zeros(batch_size, 3)

    def units(self, batch):
        return len(batch)

    def loss(self, module, batch, state):
        return module(batch).sum(), None

    def optimizer(self, module, config):
        return torch.optim.SGD(module.parameters())

    def inference_inputs(self, config, batch_size, generator):
        return torch.zeros(batch_size, 2), torch.zeros(batch_size)


def test_a_size_for_a_task_and_a_length():
    network = TwoTasks()
    assert network.configure("full") is network.sizes["full"]
    assert network.configure("full", "answers", 384) is network.sizes["full"]
    masks = network.configure("full", "masks")
    # The published count is that of the size's own task.
    assert (masks.task, masks.sequence_length, masks.parameters) == ("masks", 128, None)
    assert network.configure("full", "masks", 512).sequence_length == 512
    assert network.configure("tiny", "masks").sequence_length == 16
    assert network.configure("full", sequence_length=128).parameters == 1000


def test_what_there_is_not_is_said():
    network = TwoTasks()
    for words, message in (
        (("huge",), "unknown size of two-tasks 'huge'; known: full, tiny."),
        (("full", "answer"), "unknown task of two-tasks 'answer'; did you mean answers?"),
        (("full", "parses"), "unknown task of two-tasks 'parses'"),
    ):
        with pytest.raises(UsageError, match=r"^unknown") as error:
            network.configure(*words)
        assert str(error.value).startswith(message)
    with pytest.raises(UsageError, match=r"resnet50-v1\.5 has no sequence length"):
        registry.load("resnet50-v1.5").configure("full", sequence_length=128)


def test_padding_and_shapes_where_a_network_says_nothing():
    network = TwoTasks()
    assert network.padded_units(torch.zeros(5, 3)) == 5
    shapes = network.dynamic_shapes(network.sizes["tiny"])
    assert [list(each) for each in shapes] == [[0], [0]]
    assert shapes[0][0] is shapes[1][0]
    module = network.build(None)
    assert network.inference(module, None) is module
    assert not module.training


def test_a_job_trains_at_its_sequence_length():
    def units(length):
        job = Job(network="transformer-xl-base", size="tiny", batch_size=3, sequence_length=length)
        return TrainingStep(registry.load(job.network), job, TorchDevice("cpu"))()

    assert units(None) == 3 * 32
    assert units(16) == 3 * 16


def test_a_library_that_is_not_installed_is_named_with_what_to_install(tmp_path):
    # A process of its own, in which the library looks as if it were not there.
    (tmp_path / "transformers.py").write_text(
        "raise ModuleNotFoundError('No module named transformers', name='transformers')"
    )
    code = "from accelmark.networks import registry\nregistry.load('electra-base')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stderr.strip().endswith(
        "UnsupportedError: electra-base needs transformers, which is not installed: "
        "pip install 'accelmark[pytorch]'"
    )
