"""Three phases on a clock that moves as they work: what each took, and when the run ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import UnsupportedError
from accelmark.job import Job, Settings
from accelmark.networks import registry
from accelmark.networks.games.evaluation import Match
from accelmark.networks.games.self_play import Played
from accelmark.record import Status
from accelmark.scenarios import time_to_quality
from accelmark.scenarios.time_to_quality import MATCH, Phases, learn
from tests.fakes import FakeClock

JOB = Job(network="minigo", scenario="time-to-quality", size="tiny", precision="fp32", engine="eager")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Phases of 10, 5 and 2 seconds; the network wins 40, 50, 60 … of 100 games."""
    clock = FakeClock()
    wins = iter(range(40, 100, 10))

    def play(evaluate, play, games, random):
        clock.advance(10)
        return Played(torch.zeros(64, 1), torch.zeros(64, 1), torch.zeros(64), games, 70)

    def train(module, optimizer, window, batch_size, steps, random):
        clock.advance(5)
        return steps * batch_size

    def match(first, second, play, games, random):
        clock.advance(2)
        return Match(games, next(wins), 0, 1)

    monkeypatch.setattr(time_to_quality, "self_play", play)
    monkeypatch.setattr(time_to_quality, "train", train)
    monkeypatch.setattr(time_to_quality, "match", match)
    return clock


def generations(clock: FakeClock, budget_s: float):
    network = registry.load("minigo")
    config = network.sizes["tiny"]
    phases = Phases(TorchDevice("cpu"), clock)
    return (*learn(network, network.build(config), config, JOB, budget_s, phases), phases.done)


def test_each_phase_is_timed_for_itself_until_the_target_is_reached(clock: FakeClock) -> None:
    found, turns, phases = generations(clock, 1000)
    assert (found.wins, turns) == (60, 3)
    assert {name: (phase.seconds, phase.unit) for name, phase in phases.items()} == {
        "self-play": (30, "positions"),
        "training": (15, "positions"),
        "evaluation": (6, "games"),
    }
    assert phases["self-play"].units == 3 * 70
    # Three times each of 64, 128 and 192 positions.
    assert phases["training"].units == 3 * (64 + 128 + 192)
    assert phases["evaluation"].units == 3 * MATCH


def test_a_generation_that_would_not_end_in_time_is_not_begun(clock: FakeClock) -> None:
    found, turns, _ = generations(clock, 50)
    assert (found.wins, turns) == (50, 2)


@pytest.mark.parametrize(("won", "status"), [(60, Status.NOISY), (59, Status.TIMED_OUT)])
def test_only_a_target_that_was_reached_has_a_time(
    monkeypatch: pytest.MonkeyPatch, won: int, status: Status
) -> None:
    def learnt(network, module, config, job, budget_s, phases):
        for name, unit, seconds in (("self-play", "positions", 90.0), ("evaluation", "games", 30.0)):
            phases.add(name, unit, seconds, 100)
        return Match(100, won, 0, 1), 1

    monkeypatch.setattr(time_to_quality, "learn", learnt)
    outcome = time_to_quality.run(registry.load("minigo"), JOB, Settings(), TorchDevice("cpu"))
    assert outcome.status is status
    (quality,) = outcome.metrics.quality
    assert (quality.value, quality.target, quality.reached) == (won, 60, won >= 60)
    assert quality.ci95 is not None
    assert quality.ci95[0] < won < quality.ci95[1]
    assert outcome.metrics.time_to_train_min == (2 if won >= 60 else None)
    assert f"won {won} of 100" in outcome.reasons[0]


def test_a_real_generation_of_few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    network = registry.load("minigo")
    config = network.sizes["tiny"]
    config = replace(config, play=replace(config.play, readouts=4, fast_readouts=2, side_by_side=4))
    monkeypatch.setitem(time_to_quality.GAMES, "tiny", 4)
    monkeypatch.setattr(time_to_quality, "MATCH", 4)
    phases = Phases(TorchDevice("cpu"))
    torch.manual_seed(0)
    found, turns = learn(network, network.build(config), config, JOB, 1e-9, phases)
    assert (found.games, turns) == (4, 1)
    assert list(phases.done) == ["self-play", "training", "evaluation"]
    assert phases.done["self-play"].units >= 8
    assert np.isfinite([phase.seconds for phase in phases.done.values()]).all()


def test_what_it_does_not_run_in_is_said() -> None:
    with pytest.raises(UnsupportedError, match="fp32 on the engine eager"):
        time_to_quality.run(
            registry.load("minigo"),
            JOB.model_copy(update={"engine": "compile"}),
            Settings(),
            TorchDevice("cpu"),
        )
