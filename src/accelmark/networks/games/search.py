"""Monte-Carlo tree search (AlphaGo Zero, Silver et al., 2017) as MLPerf's Minigo has it, in many games.

Each game has a tree of its own: all go down to a leaf, and the network answers for the leaves of all of them
in one batch. A leaf where the game has ended is scored at once and the game goes down again, so that it has a
place in the batch nevertheless. With more than one leaf of a game in each batch, a virtual loss on the way to
a leaf sends the next one elsewhere.

Values are Black's: 1 is a win, -1 a loss. A move's score is Q + U, with

    Q = (start + total) / (1 + visits),      from the side of who is to play
    U = 2 (log((1 + n + 19652) / 19652) + 1.25) sqrt(max(1, n - 1)) prior / (1 + visits)

where n is how often its position was visited, and `start` is that position's own value less a penalty.

Different from the reference: a search begins with an empty tree, where the reference keeps what lies below
the move that was played; both ask the network as often. After a pass the game's end is visited first, as by
Minigo's player in Python. Visits are not reshaped after the search, answers are not cached, and the value at
which a player gives up is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from accelmark.networks.games import go

#: Planes [positions, planes, size, size] to logits of moves [positions, points + 1] and values [positions].
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]

PUCT_BASE, PUCT_START = 19652.0, 1.25


@dataclass(frozen=True, kw_only=True)
class Play:
    """How games are searched and played; the defaults are those of the reference."""

    size: int
    #: Visits in a search, and in a fast one that no position is kept of.
    readouts: int
    fast_readouts: int
    #: How many of the searches are fast.
    fast_share: float = 0.75
    #: Games that are played at the same time.
    side_by_side: int = 96
    #: Leaves of each game in a batch.
    leaves: int = 4
    komi: float = go.KOMI
    noise_mix: float = 0.3
    start_penalty: float = 0.2
    #: A player whose value is below this gives up.
    resign: float = -0.9

    @property
    def noise(self) -> float:
        """Parameter of the noise on the moves of a position that is searched, larger for fewer moves."""
        return 0.03 * 361 / self.size**2

    @property
    def soft_moves(self) -> int:
        """How many moves of a game are drawn by their visits, where later ones are the most visited."""
        return self.size**2 // 12 // 2 * 2

    @property
    def longest(self) -> int:
        """Moves after which a game ends."""
        return 2 * self.size**2


@dataclass(frozen=True)
class Searched:
    """What a search found: visits of each move, [games, points + 1], and Black's mean value, [games]."""

    visits: NDArray[np.int64]
    values: NDArray[np.float64]


class Evaluator:
    """A network as the search asks it: each position turned or mirrored at random, if there is a `random`."""

    def __init__(self, module: nn.Module, random: np.random.Generator | None = None) -> None:
        self.module, self.random = module, random

    def __call__(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        device = next(self.module.parameters()).device
        if self.module.training:
            self.module.eval()
        with torch.inference_mode():
            if self.random is None:
                return self.module(planes.to(device))
            tables = go.symmetries(planes.shape[-1])
            chosen = torch.from_numpy(tables[self.random.integers(len(tables), size=len(planes))])
            turned, _ = turn(planes, None, chosen)
            logits, values = self.module(turned.to(device))
            return logits.gather(1, chosen.argsort(1).to(device)), values


def turn(planes: Tensor, moves: Tensor | None, tables: Tensor) -> tuple[Tensor, Tensor | None]:
    """Planes, and numbers of each move, of boards turned by a table of `symmetries` each."""
    where = tables[:, None, :-1].expand(-1, planes.shape[1], -1)
    turned = planes.flatten(2).gather(2, where).view_as(planes)
    return turned, None if moves is None else moves.gather(1, tables)


def search(
    positions: go.Positions,
    past: NDArray[np.uint64],
    evaluate: Evaluate,
    play: Play,
    readouts: int,
    random: np.random.Generator | None = None,
) -> Searched:
    """Visits of the moves in each position: so many as `readouts`, in each.

    `past` are the keys of earlier boards, [positions, any]. With `random`, there is noise on the moves.
    """
    tree = Tree(positions, past, play, readouts + 1)
    roots = np.arange(len(positions)) * tree.nodes
    tree.expand(roots, evaluate)
    if random is not None:
        tree.add_noise(roots, random)
    left = np.full(len(positions), readouts)
    while left.any():
        leaves = []
        for _ in range(play.leaves):
            leaves.append(tree.leaves(left))
            tree.lose(leaves[-1], 1)
        for each in leaves:
            tree.lose(each, -1)
        tree.expand(np.concatenate(leaves), evaluate)
    return Searched(tree.visits[roots], tree.root_total / (1 + readouts))


class Tree:
    """A tree for each of many games, in arrays over all their nodes; a game's first node is its root."""

    def __init__(self, positions: go.Positions, past: NDArray[np.uint64], play: Play, nodes: int) -> None:
        games, moves = len(positions), positions.points + 1
        self.past, self.play, self.nodes = past, play, nodes
        self.states = positions.room(games * nodes)
        self.parent = np.full(games * nodes, -1)
        self.move = np.zeros(games * nodes, np.int64)
        self.expanded = np.zeros(games * nodes, np.bool_)
        self.ended = np.zeros(games * nodes, np.bool_)
        self.waiting = np.zeros(games * nodes, np.bool_)
        self.result = np.zeros(games * nodes)
        # Of each node's moves. No move leads to a root, so 0 is a move that leads nowhere yet.
        self.children = np.zeros((games * nodes, moves), np.int64)
        self.visits = np.zeros((games * nodes, moves), np.int64)
        self.totals = np.zeros((games * nodes, moves), np.float32)
        self.priors = np.zeros((games * nodes, moves), np.float32)
        self.allowed = np.zeros((games * nodes, moves), np.bool_)
        self.used = np.ones(games, np.int64)
        self.root_total = np.zeros(games)
        self.states[np.arange(games) * nodes] = positions

    def leaves(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """A leaf for the network in each game that has readouts left, and counts them down.

        Fewer, if a game comes to a leaf that waits already, or has no readouts left after games that ended.
        """
        games, found = np.flatnonzero(left > 0), []
        while len(games):
            leaf = self.descend(games)
            ended, new = self.ended[leaf], ~self.waiting[leaf]
            self.back_up(leaf[ended], self.result[leaf[ended]])
            new &= ~ended
            self.waiting[leaf[new]] = True
            left[games[ended | new]] -= 1
            found.append(leaf[new])
            games = games[ended & (left[games] > 0)]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def descend(self, games: NDArray[np.int64]) -> NDArray[np.int64]:
        """From the roots by the best scores to nodes that the network was not asked about, old or new."""
        node = games * self.nodes
        on = np.arange(len(games))
        while len(on):
            at = node[on]
            sign = self.states.to_play[at, None]
            score = puct(self.visits[at], self.totals[at], self.priors[at], sign)
            score = np.where(self.allowed[at], score, -np.inf)
            # After a pass the game's end is looked at first, so that nobody passes what is lost by it.
            score[(self.states.passes[at] == 1) & (self.visits[at, -1] == 0), -1] = np.inf
            move = score.argmax(1)
            child = self.children[at, move]
            new = child == 0
            if new.any():
                child[new] = self.grow(games[on[new]], at[new], move[new])
            node[on] = child
            on = on[self.expanded[child]]
        return node

    def grow(
        self, games: NDArray[np.int64], at: NDArray[np.int64], move: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """New nodes for moves at nodes, one of each game."""
        new = games * self.nodes + self.used[games]
        self.used[games] += 1
        state = go.play(self.states[at], move)
        self.states[new] = state
        self.parent[new], self.move[new], self.children[at, move] = at, move, new
        ended = go.over(state, self.play.longest)
        if ended.any():
            self.ended[new] = ended
            self.result[new[ended]] = np.sign(go.scores(state[np.flatnonzero(ended)]) - self.play.komi)
        return new

    def expand(self, leaves: NDArray[np.int64], evaluate: Evaluate) -> None:
        """Ask the network about leaves, and give their moves priors and their way up the value."""
        if not len(leaves):
            return
        states = self.states[leaves]
        allowed = go.legal(states, np.concatenate([self.past[leaves // self.nodes], self.keys(leaves)], 1))
        logits, values = evaluate(torch.from_numpy(go.planes(states, allowed)))
        logits = np.where(allowed, logits.float().cpu().numpy(), -np.inf)
        priors = np.exp(logits - logits.max(1, keepdims=True))
        value = values.float().cpu().numpy()
        self.priors[leaves] = priors / priors.sum(1, keepdims=True)
        self.allowed[leaves] = allowed
        start = (value - self.play.start_penalty * states.to_play).clip(-1, 1)
        self.totals[leaves] = start[:, None]
        self.expanded[leaves], self.waiting[leaves] = True, False
        self.back_up(leaves, value)

    def keys(self, nodes: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The boards between the roots and nodes, as keys: [nodes, depth]."""
        found = []
        while (self.parent[nodes] >= 0).any():
            nodes = np.where(self.parent[nodes] >= 0, self.parent[nodes], nodes)
            found.append(self.states.key[nodes])
        return np.stack(found, 1) if found else np.zeros((len(nodes), 0), np.uint64)

    def back_up(self, nodes: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Count a visit with its value on all moves from the roots to nodes."""
        np.add.at(self.root_total, nodes // self.nodes, values)
        for at, move, on in self.way_up(nodes):
            np.add.at(self.visits, (at, move), 1)
            np.add.at(self.totals, (at, move), values[on])

    def lose(self, nodes: NDArray[np.int64], times: int) -> None:
        """Count losses on all moves from the roots to nodes, for whoever made them."""
        for at, move, _ in self.way_up(nodes):
            np.add.at(self.totals, (at, move), -times * self.states.to_play[at])

    def way_up(self, nodes: NDArray[np.int64]):
        """The nodes above and the moves at them that lead to nodes, and which of the nodes these are."""
        on = np.flatnonzero(self.parent[nodes] >= 0)
        nodes = nodes[on]
        while len(nodes):
            at = self.parent[nodes]
            yield at, self.move[nodes], on
            deeper = self.parent[at] >= 0
            nodes, on = at[deeper], on[deeper]

    def add_noise(self, roots: NDArray[np.int64], random: np.random.Generator) -> None:
        """Mix Dirichlet's distribution over the allowed moves into the roots' priors."""
        drawn = random.gamma(self.play.noise, size=self.priors[roots].shape) * self.allowed[roots]
        drawn /= drawn.sum(1, keepdims=True).clip(np.finfo(float).tiny)
        mix = self.play.noise_mix
        self.priors[roots] = (1 - mix) * self.priors[roots] + mix * drawn


def puct(
    visits: NDArray[np.int64],
    totals: NDArray[np.float32],
    priors: NDArray[np.float32],
    to_play: NDArray[np.int8],
) -> NDArray[np.float32]:
    """The scores of moves, [nodes, moves], by which a search chooses; `to_play` is [nodes, 1]."""
    below = visits.sum(1, keepdims=True).astype(np.float32)
    # A node was visited once for itself.
    scale = 2 * (np.log((2 + below + PUCT_BASE) / PUCT_BASE) + PUCT_START) * np.sqrt(np.maximum(1, below))
    return (to_play * totals + scale * priors) / (1 + visits).astype(np.float32)


def pick(
    visits: NDArray[np.int64], soft: NDArray[np.bool_], random: np.random.Generator
) -> NDArray[np.int64]:
    """The most visited moves, or where `soft`, drawn by visits; a pass only if nothing else was visited."""
    weights = visits[:, :-1].astype(np.float64) ** 0.98
    cumulated = weights.cumsum(1)
    drawn = (cumulated < random.random((len(visits), 1)) * cumulated[:, -1:]).sum(1)
    drawn = np.where(cumulated[:, -1] > 0, drawn, visits.shape[1] - 1)
    return np.where(soft, drawn, visits.argmax(1))
