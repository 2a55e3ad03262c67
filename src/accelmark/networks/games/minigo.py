"""Minigo: AlphaGo Zero's policy and value network (Silver et al., 2017) as MLPerf training 0.7 has it.

Six residual blocks of two 3x3 convolutions with 64 filters on a 19x19 board of 13 planes (four boards of both
colours, who is to play, liberties, captures), a policy of 361 points and a pass, and a value: 1 where Black
wins, -1 where White does. 736,671 parameters, counted in the tests; nobody published a count:

    stem       13 x 64 x 9 + 2 x 64                                     7,616
    blocks     6 x 2 x (64 x 64 x 9 + 2 x 64)                         443,904
    policy     64 x 2 + (2 x 361 + 1) x 362                           261,854
    value      64 + (361 + 1) x 64 + 64 + 1                            23,297

The configuration is the reference's `ml_perf/flags/19` (retired_benchmarks/minigo in MLCommons' repository),
smaller than the 20 blocks of 256 filters that Minigo's own and the paper's have. As there: cross-entropy to
the share of visits that a search gave each move, half the squared error of the value, L2 of 1e-4 on all that
is no bias, momentum of 0.9, 4,096 positions a step, no weights in the heads' batch normalisations. The
learning rate is that of the schedule's longest part, without its first 128 steps at a tenth.

A batch's positions are from random games under the rules; visits are drawn from a random policy over the
moves that are allowed, and outcomes are who has more area where a game stops. Games by the network itself,
training on them, and matches between networks are in `self_play.py`, `learning.py` and `evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.games import go
from accelmark.networks.games.search import Play
from accelmark.networks.registry import register

#: Positions that a synthetic batch takes from each of its games.
FROM_EACH_GAME = 16

#: Of the squared error of the value in the loss.
VALUE_WEIGHT = 0.5


@dataclass(frozen=True, kw_only=True)
class MinigoConfig(Config):
    """`play` is how games are played with the network; the size of its board is the network's."""

    blocks: int
    filters: int
    width: int
    learning_rate: float
    play: Play


class Block(nn.Module):
    """Two convolutions beside what they change."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            *convolution(filters, filters, 3), nn.ReLU(), *convolution(filters, filters, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.change(x))


def convolution(channels: int, filters: int, size: int, affine: bool = True) -> list[nn.Module]:
    """A convolution without biases and its normalisation."""
    norm = nn.BatchNorm2d(filters, eps=1e-5, momentum=0.05, affine=affine)
    return [nn.Conv2d(channels, filters, size, padding=size // 2, bias=False), norm]


class PolicyAndValue(nn.Module):
    """Planes [positions, planes, size, size] to logits [positions, points + 1] and values [positions]."""

    def __init__(self, config: MinigoConfig) -> None:
        super().__init__()
        points, filters = config.play.size**2, config.filters
        self.trunk = nn.Sequential(
            *convolution(go.PLANES, filters, 3), nn.ReLU(), *(Block(filters) for _ in range(config.blocks))
        )
        self.policy = nn.Sequential(
            *convolution(filters, 2, 1, affine=False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * points, points + 1),
        )
        self.value = nn.Sequential(
            *convolution(filters, 1, 1, affine=False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(points, config.width),
            nn.ReLU(),
            nn.Linear(config.width, 1),
            nn.Tanh(),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        x = self.trunk(planes.to(self.policy[0].weight.dtype))
        return self.policy(x), self.value(x).squeeze(1)


class Answer(nn.Module):
    """How likely each move is, [positions, points + 1], and how the game ends for Black, [positions]."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = self.module(planes)
        return logits.float().softmax(1), values.float()


@register
class Minigo(Network):
    """The reinforcement learning benchmark of MLPerf training 0.7."""

    name = "minigo"
    title = "MiniGo"
    domain = "games"
    task = "playing Go"
    unit = "positions"
    dataset = "self-play games"
    quality = QualityTarget("win rate against checkpoint, %", 50.0)
    paper = "https://doi.org/10.1038/nature24270"
    reference = "https://github.com/mlcommons/training/tree/master/retired_benchmarks/minigo"
    scenarios = ("training", "inference", "time-to-quality")
    channels_last = True
    sizes = {
        "full": MinigoConfig(
            batch_size=4096,
            blocks=6,
            filters=64,
            width=64,
            learning_rate=0.16,
            play=Play(size=19, readouts=800, fast_readouts=80),
        ),
        "tiny": MinigoConfig(
            batch_size=64,
            blocks=1,
            filters=16,
            width=64,
            learning_rate=0.1,
            # Best play on this board ends 4 points ahead, so with this komi neither side learns that all is
            # lost. What an untrained network says of that is worth nothing, so nobody gives up.
            play=Play(
                size=6,
                komi=3.5,
                readouts=16,
                fast_readouts=8,
                fast_share=0,
                side_by_side=40,
                leaves=1,
                resign=-1,
            ),
        ),
    }

    def build(self, config: MinigoConfig) -> PolicyAndValue:
        return PolicyAndValue(config)

    def batch(self, config: MinigoConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        planes, allowed, outcomes = random_positions(batch_size, config.play, generator)
        # A policy that prefers a few moves, and a search's visits as they would be drawn from it.
        policy = torch.randn(allowed.shape, generator=generator).mul_(2).masked_fill_(~allowed, -torch.inf)
        drawn = policy.softmax(1).multinomial(config.play.readouts, replacement=True, generator=generator)
        visits = torch.zeros(allowed.shape).scatter_add_(1, drawn, torch.ones(drawn.shape))
        return {"planes": planes, "visits": visits / config.play.readouts, "outcomes": outcomes}

    def units(self, batch: dict[str, Tensor]) -> int:
        return len(batch["planes"])

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        logits, values = module(batch["planes"])
        policy = F.cross_entropy(logits.float(), batch["visits"])
        value = F.mse_loss(values.float(), batch["outcomes"])
        return policy + VALUE_WEIGHT * value, None

    def optimizer(self, module: nn.Module, config: MinigoConfig) -> torch.optim.Optimizer:
        biases = [p for name, p in module.named_parameters() if name.endswith("bias")]
        others = [p for name, p in module.named_parameters() if not name.endswith("bias")]
        return torch.optim.SGD(
            [{"params": others, "weight_decay": 1e-4}, {"params": biases, "weight_decay": 0.0}],
            lr=config.learning_rate,
            momentum=0.9,
            fused=True,
        )

    def inference_inputs(
        self, config: MinigoConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return (random_positions(batch_size, config.play, generator)[0],)

    def inference(self, module: nn.Module, config: MinigoConfig) -> Answer:
        return Answer(module)


def random_positions(count: int, play: Play, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of random games: planes, which moves are allowed, and who wins where the game stops.

    The games run side by side for two thirds as many moves as there are points, and positions are taken
    after the same of these moves in each. Who has more area wins: without komi, so that both colours do.
    """
    random = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    games = -(-count // FROM_EACH_GAME)
    board = go.start(games, play.size)
    last = 2 * board.points // 3
    taken = random.choice(last + 1, FROM_EACH_GAME, replace=False)
    past = np.zeros((games, last + 1), np.uint64)
    planes, allowed = [], []
    for turn in range(last + 1):
        past[:, turn] = board.key
        moves = go.legal(board, past[:, : turn + 1])
        if turn in taken:
            planes.append(go.planes(board, moves))
            allowed.append(moves)
        weights = random.random(moves.shape, np.float32) * moves
        weights[:, -1] *= 1e-6  # a pass only where nothing else is left
        board = go.play(board, weights.argmax(1))
    outcomes = np.where(go.scores(board) > 0, 1, -1).astype(np.float32)
    # In any order, so that each part of a batch is like the whole.
    order = random.permutation(games * FROM_EACH_GAME)[:count]
    return (
        torch.from_numpy(np.concatenate(planes)[order]),
        torch.from_numpy(np.concatenate(allowed)[order]),
        torch.from_numpy(np.tile(outcomes, FROM_EACH_GAME)[order]),
    )
