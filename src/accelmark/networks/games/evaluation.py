"""Matches between two networks: the last of Minigo's three phases, and what its quality is measured by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelmark import stats
from accelmark.networks.games import go
from accelmark.networks.games.search import Evaluate, Play, pick, search
from accelmark.networks.games.self_play import Games


@dataclass(frozen=True)
class Match:
    """How many games the first network won of all, of those as Black, and how many moves were made."""

    games: int
    wins: int
    wins_as_black: int
    moves: int

    @property
    def win_rate(self) -> tuple[float, float, float]:
        """The share of games won, and its 95 % interval."""
        return self.wins / self.games, *stats.proportion(self.wins, self.games)


def match(first: Evaluate, second: Evaluate, play: Play, games: int, random: np.random.Generator) -> Match:
    """Games between two networks side by side, in half of which (and the odd one) the first is Black.

    Searches are without noise, and all full. As the reference's, they differ from game to game by the turns
    of the board that an `Evaluator` sees; and here by the first two moves, too, which are drawn by visits.
    """
    running = Games(games, play)
    black = np.arange(games) % 2 == 0
    wins = wins_as_black = moves = 0
    while len(running):
        mover = running.boards.to_play
        chosen = np.zeros(len(running), np.int64)
        for network, evaluate in ((True, first), (False, second)):
            turn = np.flatnonzero((black == network) == (mover == go.BLACK))
            if len(turn):
                found = search(running.boards[turn], running.past[turn], evaluate, play, play.readouts)
                chosen[turn] = pick(found.visits, running.boards.moves[turn] < 2, random)
        ended = running.move(chosen)
        moves += len(running)
        if ended.any():
            won = (running.winners() == go.BLACK) == black
            wins += int((won & ended).sum())
            wins_as_black += int((won & ended & black).sum())
            running.keep(np.flatnonzero(~ended))
            black = black[~ended]
    return Match(games, wins, wins_as_black, moves)
