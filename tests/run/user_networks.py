"""Networks as a user would declare them in a file of his own: one that works, and all that can go wrong.

Not a test itself: the tests give this file to `accelmark run`, which executes it in workers only. The
networks misbehave in a training process after a few steps, never while they are described.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import torch
from torch import nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register


@dataclass(frozen=True)
class LinearConfig(Config):
    width: int = 16


class Linear(Network):
    title = "a linear layer"
    domain = "test"
    task = "regression"
    unit = "rows"
    dataset = "noise"
    quality = QualityTarget("loss", 0.0)
    paper = "none"
    reference = "none"
    sizes = {"full": LinearConfig(batch_size=4), "tiny": LinearConfig(batch_size=2, width=4)}
    calls = 0
    well_behaved = 8

    def build(self, config: LinearConfig) -> nn.Module:
        return nn.Sequential(nn.Linear(config.width, 32), nn.ReLU(), nn.Linear(32, 1))

    def batch(self, config: LinearConfig, batch_size: int, generator: torch.Generator):
        rows = torch.randn(batch_size, config.width, generator=generator)
        return rows, rows.sum(dim=1, keepdim=True)

    def units(self, batch) -> int:
        return batch[0].shape[0]

    def loss(self, module, batch, state):
        Linear.calls += 1
        if Linear.calls > self.well_behaved and "catalog" not in sys.argv[0]:
            self.misbehave()
        return self.criterion(module(batch[0]), batch[1]), None

    def criterion(self, output, target):
        return nn.functional.mse_loss(output, target)

    def misbehave(self) -> None:
        pass

    def optimizer(self, module, config):
        return torch.optim.SGD(module.parameters(), lr=0.01)

    def inference_inputs(self, config, batch_size, generator):
        return (self.batch(config, batch_size, generator)[0],)


@register
class Steady(Linear):
    """Sleeps, so that its speed is known: 4 rows in a little over 20 ms."""

    name = "steady"
    well_behaved = 0

    def misbehave(self) -> None:
        time.sleep(0.02)


@register
class Segfault(Linear):
    name = "segfault"

    def misbehave(self) -> None:
        ctypes.string_at(0)


@register
class Killed(Linear):
    name = "killed"

    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@register
class Broken(Linear):
    name = "broken"

    def misbehave(self) -> None:
        raise ValueError("a defect in the network")


@register
class Hanging(Linear):
    """Hangs with a child of its own, whose number it leaves in the file that the test names."""

    name = "hanging"

    def misbehave(self) -> None:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with open(os.environ["TEST_CHILD_FILE"], "w", encoding="utf-8") as file:
            file.write(f"{child.pid} {os.getpid()}")
        time.sleep(600)


@register
class Greedy(Linear):
    """Takes memory until there is none."""

    name = "greedy"

    def misbehave(self) -> None:
        kept = []
        while True:
            kept.append(torch.empty(2**28))


@register
class NotANumber(Linear):
    name = "not-a-number"

    def criterion(self, output, target):
        return super().criterion(output, target) * float("nan")


@register
class NeverLearns(Linear):
    name = "never-learns"

    def optimizer(self, module, config):
        return torch.optim.SGD(module.parameters(), lr=0.0)


@register
class Bounded(Linear):
    """Fits up to a batch of 37 and runs out of memory beyond."""

    name = "bounded"

    def loss(self, module, batch, state):
        if batch[0].shape[0] > 37:
            torch.empty(2**50)
        return super().loss(module, batch, state)
