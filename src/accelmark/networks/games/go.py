"""The rules of Go for many boards side by side, of any size, in NumPy on the CPU.

Area scoring as in the Tromp-Taylor rules (tromp.github.io/go.html): stones that stand count as alive. As in
Minigo's self-play there is no suicide, and positional superko: no move may bring back the stones of any
earlier board, of which simple ko is the shortest case. A pass is always allowed; two in a row end a game, and
so does a limit of moves.

Points are numbered row by row; the number after the last one is a pass as a move, and off the board as a
place: arrays over points have this one more column, so that looking at neighbours needs no exceptions.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

BLACK, WHITE, EMPTY, OUTSIDE = 1, -1, 0, 2

#: How many boards the network sees: this one and those before it.
HISTORY = 4
#: Two for each of these boards, who is to play, three of liberties, and what would capture.
PLANES = 2 * HISTORY + 5

#: Minigo's.
KOMI = 7.5


@functools.cache
def neighbours(size: int) -> NDArray[np.int64]:
    """The four points next to each point, or off the board: [points, 4]."""
    number = np.full((size + 2, size + 2), size * size)
    number[1:-1, 1:-1] = np.arange(size * size).reshape(size, size)
    sides = number[:-2, 1:-1], number[2:, 1:-1], number[1:-1, :-2], number[1:-1, 2:]
    return np.stack([side.ravel() for side in sides], 1)


@functools.cache
def stone_keys(size: int) -> NDArray[np.uint64]:
    """A random number for a stone of each colour on each point: [3, points + 1], by colour, -1 from the end.

    A board's key is the sum of its stones' numbers (after Zobrist, 1970, who took exclusive ors).
    """
    random = np.random.default_rng(1970)
    return random.integers(1, 2**64, (3, size * size + 1), dtype=np.uint64)


#: The key of an empty board: not 0, which stands for no board.
EMPTY_KEY = np.uint64(1)


@functools.cache
def symmetries(size: int) -> NDArray[np.int64]:
    """Where each point of a turned or mirrored board is taken from: [8, points + 1]; a pass stays one."""
    points = np.arange(size * size).reshape(size, size)
    turned = [np.rot90(each, times) for each in (points, points.T) for times in range(4)]
    return np.stack([np.append(each, size * size) for each in turned])


@dataclass
class Positions:
    """Many positions of boards of one size; all arrays have them as their first axis."""

    size: int
    #: Stones now and before the last moves: [positions, history, points + 1].
    boards: NDArray[np.int8]
    #: The chain of a stone, named by one of its points, or off the board: [positions, points + 1].
    chains: NDArray[np.int16]
    #: How many liberties a stone's chain has: [positions, points + 1].
    liberties: NDArray[np.int16]
    #: Whether a stone was ever taken from a point, by colour: [positions, 3, points + 1], white at -1.
    taken: NDArray[np.bool_]
    key: NDArray[np.uint64]
    to_play: NDArray[np.int8]
    passes: NDArray[np.int8]
    moves: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.key)

    @property
    def points(self) -> int:
        """How many points a board has, and the number of a pass."""
        return self.size**2

    @property
    def stones(self) -> NDArray[np.int8]:
        """The boards as they are now: [positions, points + 1]."""
        return self.boards[:, 0]

    def __getitem__(self, rows: NDArray[np.int64]) -> Positions:
        """Copies of some of the positions."""
        return Positions(self.size, *(array[rows] for array in self._arrays()))

    def __setitem__(self, rows: NDArray[np.int64], others: Positions) -> None:
        for array, other in zip(self._arrays(), others._arrays(), strict=True):
            array[rows] = other

    def room(self, count: int) -> Positions:
        """Positions like these that nothing is said of yet."""
        return Positions(self.size, *(np.empty((count, *a.shape[1:]), a.dtype) for a in self._arrays()))

    def _arrays(self) -> list[NDArray]:
        return [getattr(self, field.name) for field in fields(self)[1:]]


def start(count: int, size: int) -> Positions:
    """Empty boards, Black to play."""
    points = size * size
    boards = np.zeros((count, HISTORY, points + 1), np.int8)
    boards[:, :, points] = OUTSIDE
    return Positions(
        size,
        boards,
        np.full((count, points + 1), points, np.int16),
        np.zeros((count, points + 1), np.int16),
        np.zeros((count, 3, points + 1), np.bool_),
        np.full(count, EMPTY_KEY),
        np.full(count, BLACK, np.int8),
        np.zeros(count, np.int8),
        np.zeros(count, np.int16),
    )


def play(positions: Positions, moves: NDArray[np.int64]) -> Positions:
    """The positions after a move in each, which must be allowed there."""
    points, place = positions.points, np.flatnonzero(moves < positions.points)
    after = Positions(positions.size, *(array.copy() for array in positions._arrays()))
    after.boards[:, 1:] = positions.boards[:, :-1]
    at, colour = moves[place], positions.to_play[place]
    near = neighbours(positions.size)[at]
    beside = positions.stones[place[:, None], near]
    chain = positions.chains[place[:, None], near]
    before = positions.chains[place]

    joined = belongs(before, chain, beside == colour[:, None])
    touched = belongs(before, chain, beside == -colour[:, None])
    captured = touched & (positions.liberties[place] == 1)
    joined[np.arange(len(place)), at] = True
    chains = np.where(joined, at[:, None], before)
    chains[captured] = points
    after.chains[place] = chains
    stones = after.stones[place]
    stones[np.arange(len(place)), at] = colour
    stones[captured] = EMPTY
    after.boards[place, 0] = stones
    row, point = np.nonzero(captured)
    after.taken[place[row], -colour[row], point] = True

    keys = stone_keys(positions.size)
    after.key[place] += keys[colour, at]
    np.subtract.at(after.key, place[row], keys[-colour[row], point])
    # The stone takes a liberty from each chain of the other colour; its own chain's are counted anew, and all
    # chains' where something was captured.
    liberties = positions.liberties[place] - touched
    own = (spread(joined, positions.size) & (stones == EMPTY)).sum(1, keepdims=True, dtype=np.int16)
    np.copyto(liberties, own, where=joined)
    some = np.unique(row)
    liberties[some] = count_liberties(stones[some], chains[some], positions.size)
    after.liberties[place] = liberties
    after.to_play = -positions.to_play
    after.passes = np.where(moves < points, 0, positions.passes + 1).astype(np.int8)
    after.moves = positions.moves + np.int16(1)
    return after


def belongs(chains: NDArray[np.int16], names: NDArray[np.int16], use: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which points of [boards, points + 1] belong to one of some chains, [boards, 4], that are of use."""
    named = np.where(use, names, -1)
    found = chains == named[:, :1]
    for i in range(1, named.shape[1]):
        found |= chains == named[:, i : i + 1]
    return found


def count_liberties(stones: NDArray[np.int8], chains: NDArray[np.int16], size: int) -> NDArray[np.int16]:
    """How many empty points each stone's chain touches: [boards, points + 1], 0 where there is no stone."""
    points = size * size
    row, point = np.nonzero(stones == EMPTY)
    near = neighbours(size)[point]
    touched = [chains[row, near[:, i]] for i in range(4)]
    # A chain that an empty point touches twice has it once.
    for i in range(1, 4):
        again = touched[i] == touched[0]
        for j in range(1, i):
            again |= touched[i] == touched[j]
        touched[i][again] = points
    base = row * (points + 1)
    counts = np.bincount(
        np.concatenate([base + each for each in touched]), minlength=len(stones) * (points + 1)
    ).astype(np.int16)
    counts = counts.reshape(len(stones), points + 1)
    counts[:, points] = 0
    return np.take_along_axis(counts, chains.astype(np.int64), 1)


def spread(mask: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Points next to a marked one: [boards, points + 1], of which the last column stays unmarked."""
    square = mask[:, :-1].reshape(len(mask), size, size)
    found = np.zeros_like(mask)
    grown = np.zeros_like(square)
    grown[:, 1:] |= square[:, :-1]
    grown[:, :-1] |= square[:, 1:]
    grown[:, :, 1:] |= square[:, :, :-1]
    grown[:, :, :-1] |= square[:, :, 1:]
    found[:, :-1] = grown.reshape(len(mask), size * size)
    return found


def legal(positions: Positions, past: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which moves are allowed, [positions, points + 1], given the keys of earlier boards, [positions, any].

    A key of 0 is no board.
    """
    stones, liberties, colour = positions.stones, positions.liberties, positions.to_play[:, None]
    # A stone lives next to an empty point, a chain of its own with another liberty, or one that it captures.
    gives = (stones == EMPTY) | ((stones == colour) & (liberties > 1))
    gives |= (stones == -colour) & (liberties == 1)
    allowed = (stones == EMPTY) & spread(gives, positions.size)
    allowed[:, positions.points] = True

    # Only where a stone of this colour was taken before can the same board come back.
    came = positions.taken[np.arange(len(positions)), positions.to_play]
    row, point = np.nonzero(allowed & came)
    if len(row):
        again = (keys_after(positions, row, point)[:, None] == past[row]).any(1)
        allowed[row[again], point[again]] = False
    return allowed


def keys_after(positions: Positions, row: NDArray[np.int64], point: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The keys that boards would have after some stones: of positions `row` on points `point`."""
    keys, colour = stone_keys(positions.size), positions.to_play[row]
    near = neighbours(positions.size)[point]
    beside = positions.stones[row[:, None], near]
    last = positions.liberties[row[:, None], near] == 1
    captures = (beside == -colour[:, None]) & last
    after = positions.key[row] + keys[colour, point]
    takes = np.flatnonzero(captures.any(1))
    chain = positions.chains[row[takes, None], near[takes]]
    captured = belongs(positions.chains[row[takes]], chain, captures[takes])
    i, gone = np.nonzero(captured)
    np.subtract.at(after, takes[i], keys[-colour[takes[i]], gone])
    return after


def over(positions: Positions, longest: int) -> NDArray[np.bool_]:
    """Which games have ended, by two passes or after so many moves."""
    return (positions.passes >= 2) | (positions.moves >= longest)


def scores(positions: Positions) -> NDArray[np.int64]:
    """By how much Black is ahead, without komi: stones, and empty points that only one side reaches."""
    stones, size = positions.stones, positions.size
    empty = stones == EMPTY
    reached = []
    for colour in (BLACK, WHITE):
        own = stones == colour
        reach = own
        while True:
            grown = own | (empty & (reach | spread(reach, size)))
            if (grown == reach).all():
                break
            reach = grown
        reached.append(reach)
    black, white = reached
    return (black & ~white).sum(1) - (white & ~black).sum(1)


def planes(positions: Positions, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What the network sees: [positions, planes, size, size], in the order of MLPerf 0.7's features.

    Own stones and the other's, now and before each of the last moves; whether Black is to play; stones of
    chains with one, two and more liberties; and where a move that is `allowed` captures.
    """
    colour, size = positions.to_play[:, None, None], positions.size
    boards, stones, liberties = positions.boards, positions.stones, positions.liberties
    seen = np.empty((len(positions), PLANES, positions.points + 1), np.bool_)
    seen[:, 0 : 2 * HISTORY : 2] = boards == colour
    seen[:, 1 : 2 * HISTORY : 2] = boards == -colour
    seen[:, 2 * HISTORY] = positions.to_play[:, None] == BLACK
    for i in range(3):
        seen[:, 2 * HISTORY + 1 + i] = liberties == i + 1 if i < 2 else liberties > 2
    ended = (stones == -positions.to_play[:, None]) & (liberties == 1)
    seen[:, -1] = spread(ended, size) & allowed
    return seen[:, :, :-1].reshape(len(positions), PLANES, size, size)
