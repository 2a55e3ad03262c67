"""A network's games against itself: the first of Minigo's three phases.

Many games run side by side, and a new one takes the place of each that ends, so that the network sees full
batches. As in the reference, three of four searches are fast ones and their positions not kept. Different:
one draw makes the searches of all games fast or full, so that they stay in step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from accelmark.networks.games import go
from accelmark.networks.games.search import Evaluate, Play, pick, search


@dataclass(frozen=True)
class Played:
    """Positions for training, in the order in which they came up, and how much was played for them."""

    #: [positions, planes, size, size]
    planes: Tensor
    #: The share of visits that the search gave each move: [positions, points + 1].
    visits: Tensor
    #: 1 where Black won, -1 where White did.
    outcomes: Tensor
    games: int
    moves: int


class Games:
    """Games in progress, with the keys of their earlier boards."""

    def __init__(self, count: int, play: Play) -> None:
        self.play = play
        self.boards = go.start(count, play.size)
        self.past = np.zeros((count, play.longest + 1), np.uint64)

    def __len__(self) -> int:
        return len(self.boards)

    def move(self, moves: np.ndarray) -> np.ndarray:
        """Play a move in each game; which games it ends."""
        self.past[np.arange(len(self)), self.boards.moves] = self.boards.key
        self.boards = go.play(self.boards, moves)
        return go.over(self.boards, self.play.longest)

    def winners(self) -> np.ndarray:
        """Who wins as the boards are: 1 for Black, -1 for White."""
        return np.sign(go.scores(self.boards) - self.play.komi)

    def restart(self, games: np.ndarray) -> None:
        """Begin some games anew."""
        self.boards[games] = go.start(len(games), self.play.size)
        self.past[games] = 0

    def keep(self, games: np.ndarray) -> None:
        """Go on with some games only."""
        self.boards, self.past = self.boards[games], self.past[games]


def self_play(evaluate: Evaluate, play: Play, games: int, random: np.random.Generator) -> Played:
    """Play so many games with a network on both sides."""
    running = Games(min(games, play.side_by_side), play)
    number = np.arange(len(running))
    begun, moves = len(running), 0
    winners = np.zeros(games)
    planes, visits, owners = [], [], []
    while len(running):
        fast = random.random() < play.fast_share
        readouts = play.fast_readouts if fast else play.readouts
        found = search(running.boards, running.past, evaluate, play, readouts, None if fast else random)
        if not fast:
            planes.append(go.planes(running.boards, go.legal(running.boards, running.past)))
            visits.append(found.visits / found.visits.sum(1, keepdims=True))
            owners.append(number.copy())
        mover = running.boards.to_play
        resigned = found.values * mover < play.resign
        ended = running.move(pick(found.visits, running.boards.moves < play.soft_moves, random)) | resigned
        moves += len(running)
        if ended.any():
            winner = np.where(resigned, -mover, running.winners())
            winners[number[ended]] = winner[ended]
            free = np.flatnonzero(ended)
            again = free[: games - begun]
            running.restart(again)
            number[again] = np.arange(begun, begun + len(again))
            begun += len(again)
            ended[again] = False
            number = number[~ended]
            running.keep(np.flatnonzero(~ended))
    return Played(
        torch.from_numpy(np.concatenate(planes)) if planes else torch.zeros(0),
        torch.from_numpy(np.concatenate(visits)).float() if visits else torch.zeros(0),
        torch.from_numpy(winners[np.concatenate(owners)]).float() if owners else torch.zeros(0),
        games,
        moves,
    )
