"""Time to quality, of the network that makes its own data: Minigo, from its first checkpoint to a win rate.

Self-play, training and evaluation take turns, and each is timed for itself. The published target is a win
rate of 50 % against a checkpoint that plays well, which does not come with this package. Here the opponent is
the first checkpoint, and the target is a win rate that chance would give an equal in one of forty matches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch

from accelmark.engines.pytorch import TorchDevice, set_precision
from accelmark.errors import UnsupportedError
from accelmark.job import Job, Settings
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.memory import HostMemory
from accelmark.networks.base import Network
from accelmark.networks.games.evaluation import Match, match
from accelmark.networks.games.learning import extended, steps_on, train
from accelmark.networks.games.minigo import MinigoConfig
from accelmark.networks.games.search import Evaluator
from accelmark.networks.games.self_play import Played, self_play
from accelmark.record import Metrics, Phase, Quality, Samples, Status
from accelmark.scenarios.outcome import Outcome

METRIC, TARGET = "win rate against the first checkpoint, %", 60.0
#: Games that a win rate is of.
MATCH = 100
#: Games of a generation, and how many of its positions are trained on; small ones often, for a board on which
#: a game is short.
GAMES = {"full": 2000, "tiny": 40}
SHARES = {"full": 0.3, "tiny": 3.0}


T = TypeVar("T")


@dataclass
class Phases:
    """Seconds and units of each phase, in the order in which they first ran."""

    device: TorchDevice
    clock: Clock = MONOTONIC
    done: dict[str, Phase] = field(default_factory=dict)

    def add(self, name: str, unit: str, seconds: float, units: int) -> None:
        """One more turn of a phase."""
        before = self.done.get(name)
        seconds += before.seconds if before else 0
        units += int(before.units) if before else 0
        self.done[name] = Phase(name=name, seconds=seconds, units=units, unit=unit)

    def timed(self, name: str, unit: str, work: Callable[[], T], units: Callable[[T], int]) -> T:
        """Do the work of a phase, and count what it did."""
        start = self.clock()
        result = work()
        self.device.synchronize()
        self.add(name, unit, self.clock() - start, units(result))
        return result


def run(network: Network, job: Job, settings: Settings, device: TorchDevice) -> Outcome:
    """Generations until the target is reached, or until the time budget is spent."""
    if job.precision not in (None, "fp32") or job.engine not in (None, "eager"):
        raise UnsupportedError("time to quality runs in fp32 on the engine eager")
    set_precision("fp32")
    torch.manual_seed(job.seed)
    config = network.configure(job.size)
    assert isinstance(config, MinigoConfig)  # noqa: S101 - the one network with this scenario
    device.reset_peak_memory()
    with HostMemory() as host:
        module = network.build(config).to(device.torch_device)
        phases = Phases(device)
        found, generations = learn(network, module, config, job, settings.time_budget_s, phases)
    won, low, high = found.win_rate
    reached = 100 * won >= TARGET
    quality = Quality(
        metric=METRIC, value=100 * won, target=TARGET, reached=reached, ci95=(100 * low, 100 * high)
    )
    seconds = sum(phase.seconds for phase in phases.done.values())
    metrics = Metrics(
        time_to_train_min=seconds / 60 if reached else None,
        quality=[quality],
        phases=list(phases.done.values()),
        parameters=sum(p.numel() for p in module.parameters()),
        memory_peak_gib=device.peak_memory_gib(),
        host_memory_peak_gib=host.peak_gib(),
    )
    told = (
        f"won {found.wins} of {found.games} games ({low:.0%} to {high:.0%}) after {generations} generations"
    )
    conditions = {"generations": generations, "games_for_each_generation": GAMES.get(job.size, GAMES["full"])}
    if reached:
        one = "one run: how much the time differs from run to run is not known"
        return Outcome(Status.NOISY, [told, one], metrics, Samples(), conditions)
    why = f"{told}, wanted were {TARGET:g} %; give a longer --time-budget"
    return Outcome(Status.TIMED_OUT, [why], metrics, Samples(), conditions)


def learn(
    network: Network,
    module: torch.nn.Module,
    config: MinigoConfig,
    job: Job,
    budget_s: float,
    phases: Phases,
) -> tuple[Match, int]:
    """The last match, and after how many generations it was."""
    first, random = copy.deepcopy(module), np.random.default_rng(job.seed)
    optimizer = network.optimizer(module, config)
    games, share = GAMES.get(job.size, GAMES["full"]), SHARES.get(job.size, SHARES["full"])
    window: list[Played] = []
    start, generations = phases.clock(), 0
    while True:
        played = phases.timed(
            "self-play",
            "positions",
            lambda: self_play(Evaluator(module, random), config.play, games, random),
            lambda made: made.moves,
        )
        window = extended(window, played)
        steps = steps_on(window, config.batch_size, share)
        phases.timed(
            "training",
            "positions",
            # Bound now: the work is done before the next turn, and says so.
            lambda window=window, steps=steps: train(  # type: ignore[misc]
                module, optimizer, window, config.batch_size, steps, random
            ),
            lambda positions: positions,
        )
        generations += 1
        found = phases.timed(
            "evaluation",
            "games",
            lambda: match(Evaluator(module, random), Evaluator(first, random), config.play, MATCH, random),
            lambda made: made.games,
        )
        spent = phases.clock() - start
        if 100 * found.win_rate[0] >= TARGET or spent + spent / generations > budget_s:
            return found, generations
