"""Training on self-play games: the second of Minigo's three phases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from accelmark.networks.games import go
from accelmark.networks.games.minigo import Minigo
from accelmark.networks.games.search import turn
from accelmark.networks.games.self_play import Played

#: Generations whose games are trained on, and how many of their positions, with repeats; the reference's.
WINDOW, SHARE = 5, 0.3


def train(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    window: Sequence[Played],
    batch_size: int,
    steps: int,
    random: np.random.Generator,
) -> int:
    """Steps on positions drawn from games, each turned or mirrored at random; how many these were."""
    network, device = Minigo(), next(module.parameters()).device
    planes, visits, outcomes = (
        torch.cat([getattr(played, name) for played in window]) for name in ("planes", "visits", "outcomes")
    )
    module.train()
    for _ in range(steps):
        drawn = torch.from_numpy(random.integers(len(planes), size=batch_size))
        tables = go.symmetries(planes.shape[-1])
        chosen = torch.from_numpy(tables[random.integers(len(tables), size=batch_size)])
        turned, shares = turn(planes[drawn], visits[drawn], chosen)
        batch = {"planes": turned, "visits": shares, "outcomes": outcomes[drawn]}
        optimizer.zero_grad()
        loss, _ = network.loss(module, {name: each.to(device) for name, each in batch.items()}, None)
        loss.backward()
        optimizer.step()
    return steps * batch_size


def extended(window: Sequence[Played], played: Played) -> list[Played]:
    """The games to train on once another generation has been played: its and the last ones'."""
    return [*window, played][-WINDOW:]


def steps_on(window: Sequence[Played], batch_size: int, share: float = SHARE) -> int:
    """How many steps train on a share of the positions, above 1 on all of them and on some again."""
    return max(1, round(share * sum(len(played.planes) for played in window) / batch_size))
