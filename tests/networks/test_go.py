"""The rules of Go: known positions, whole games, and a slow implementation of one board at a time."""

import numpy as np
import pytest

from accelmark.networks.games import go

COLUMNS = "ABCDEFGHJKLMNOPQRST"


def point(name, size):
    """The number of a point as players name it, or of a pass."""
    if name == "pass":
        return size * size
    return (size - int(name[1:])) * size + COLUMNS.index(name[0])


def position(diagram, to_play=go.BLACK):
    """One board from a picture of it: X is Black, O is White."""
    rows = diagram.split()
    board = go.start(1, len(rows))
    for at, sign in enumerate("".join(rows)):
        if sign != ".":
            board.to_play[:] = go.BLACK if sign == "X" else go.WHITE
            board = go.play(board, np.array([at]))
    board.to_play[:] = to_play
    board.moves[:] = 0
    return board


def drawn(board):
    """The picture of one board."""
    signs = np.array([".", "X", "O"])[board.stones[0, :-1]].reshape(board.size, board.size)
    return ["".join(row) for row in signs]


class Record:
    """One game, played move by move with the names of points; a move that is not allowed fails."""

    def __init__(self, board):
        self.board, self.past = board, board.key[:, None]

    def allows(self, name):
        return bool(go.legal(self.board, self.past)[0, point(name, self.board.size)])

    def play(self, names):
        for name in names.split():
            assert self.allows(name), name
            self.board = go.play(self.board, np.array([point(name, self.board.size)]))
            self.past = np.concatenate([self.past, self.board.key[:, None]], 1)
        return self

    @property
    def score(self):
        return int(go.scores(self.board)[0])

    @property
    def over(self):
        return bool(go.over(self.board, 10_000)[0])


def test_one_stone_is_captured_by_its_last_liberty():
    game = Record(position("..... ..X.. .XO.. ..X.. ....."))
    assert game.board.liberties[0, point("C3", 5)] == 1
    game.play("D3")
    assert drawn(game.board) == [".....", "..X..", ".X.X.", "..X..", "....."]
    assert game.board.liberties[0, point("C2", 5)] == 4


def test_a_group_is_captured_as_one():
    game = Record(position("XOO.. XOXX. .XO.. ..... ....."))
    assert [game.board.liberties[0, point(name, 5)] for name in ("B5", "C5", "B4", "C3")] == [1, 1, 1, 2]
    game.play("D5")
    assert drawn(game.board) == ["X..X.", "X.XX.", ".XO..", ".....", "....."]


def test_two_groups_are_captured_by_one_stone():
    game = Record(position("XO.OX .X.X. ..... ..... .....")).play("C5")
    assert drawn(game.board) == ["X.X.X", ".X.X.", ".....", ".....", "....."]


def test_suicide_is_forbidden_of_one_stone_and_of_many():
    assert not Record(position(".X... X.... ..... ..... .....", go.WHITE)).allows("A5")
    assert Record(position(".X... X.... ..... ..... .....", go.BLACK)).allows("A5")
    assert not Record(position("O.X.. OX... X.... ..... .....", go.WHITE)).allows("B5")
    # A capture makes room.
    assert Record(position("O.XO. OXO.. XO... ..... .....", go.WHITE)).allows("B5")


KO = "..... .XO.. XO.O. .XO.. ....."


def test_ko_may_be_taken_back_only_after_another_move():
    game = Record(position(KO)).play("C3")
    assert drawn(game.board) == [".....", ".XO..", "X.XO.", ".XO..", "....."]
    assert not game.allows("B3")
    assert game.play("E5 E1").allows("B3")
    # Superko is about the stones alone: passes do not lift it.
    assert not Record(position(KO)).play("C3 pass pass").allows("B3")


def test_sending_two_and_returning_one_brings_a_board_back_and_is_forbidden():
    game = Record(position("..... ..... XXOO. XXO.. .O.O.", go.WHITE)).play("A1 C1")
    assert drawn(game.board)[-1] == "..XO."
    assert not game.allows("B1")
    assert game.play("E5 D5").allows("B1")


def test_snapback_takes_more_than_it_gave():
    game = Record(position("..... ..... XX... OOX.. ..X..")).play("A1 B1")
    assert drawn(game.board)[3:] == ["OOX..", ".OX.."]
    game.play("A1")
    assert drawn(game.board)[2:] == ["XX...", "..X..", "X.X.."]


SEKI = ".X.O. XXXOO XXOOO XXXOO XXXOO"


def test_both_sides_of_a_seki_live_and_what_lies_between_is_nobodys():
    assert Record(position(SEKI)).score == 13 - 11
    # Whoever fills the last liberty that they share loses all.
    assert Record(position(SEKI)).play("C5 A5").score == -25
    assert Record(position(SEKI, go.WHITE)).play("C5 E5").score == 25


def test_a_stone_that_stands_counts_as_alive():
    wall = "..XO. ..XO. ..XO. ..XO. {}.XO."
    assert Record(position(wall.format("."))).score == 15 - 10
    assert Record(position(wall.format("O"))).score == 5 - 11


def test_points_that_both_reach_are_nobodys():
    assert Record(position("..X.. ..XO. ..XO. ..XO. ..XO.")).score == 15 - 4
    assert Record(go.start(1, 5)).score == 0
    assert Record(position("..... ..... ..X.. ..... .....")).score == 25


def test_two_passes_or_too_many_moves_end_a_game():
    game = Record(go.start(1, 5))
    assert not game.play("C3 pass B3 pass").over
    assert game.play("pass").over
    assert go.over(game.board, 5)[0]
    assert not go.over(Record(go.start(1, 5)).play("C3 D3").board, 3)[0]


def turns(black, white):
    """Black's and White's moves in turn."""
    return " ".join(name for pair in zip(black.split(), white.split(), strict=True) for name in pair)


def test_a_game_of_two_walls():
    game = Record(go.start(1, 5)).play(turns("C3 C2 C4 C1 C5 pass", "D3 D2 D4 D1 D5 pass"))
    assert game.over
    assert game.score == 15 - 10


def test_a_game_with_a_ko():
    game = Record(go.start(1, 9)).play(turns("C5 D6 D4 A1", "F5 E6 E4 D5") + " E5")
    assert game.board.stones[0, point("D5", 9)] == go.EMPTY
    assert not game.allows("D5")
    # White looks for a threat, and Black connects.
    game.play("J9 D5")
    game.play("E7 D7 E8 D8 E9 D9 E3 D3 E2 D2 E1 D1 pass pass")
    assert game.over
    # A to D and E5; White has the rest.
    assert game.score == (36 + 1) - (81 - 37)


def test_a_game_with_a_corner_that_dies():
    game = Record(go.start(1, 9)).play(turns("C1 B2 D5", "A1 B1 A2") + " A3")
    assert game.board.stones[0, [point(name, 9) for name in ("A1", "B1", "A2")]].tolist() == [go.EMPTY] * 3
    game.play("A1 A2 E5 B1")
    assert game.board.stones[0, point("A1", 9)] == go.EMPTY
    game.play("E4 D4 E6 D6 E7 D7 E8 D8 E9 D9 E3 D3 E2 D2 E1 D1 pass pass")
    assert game.over
    assert game.score == 36 - 45


def test_a_game_on_the_large_board():
    rows = range(1, 20)
    black, white = (" ".join(f"{column}{row}" for row in rows) for column in "KL")
    game = Record(go.start(1, 19)).play(turns(black, white))
    assert game.score == 10 * 19 - 9 * 19
    # A stone of the other colour makes nobody's what it stands in, until it is taken.
    assert game.play("T1 A1").score == (19 + 1) - (19 + 1)
    assert game.play("A2 T2 B1 S1 pass pass").score == 10 * 19 - 9 * 19
    assert game.over


def naive_chain(board, at, size):
    """The points of the chain at a point, and its liberties."""
    seen, liberties, todo = {at}, set(), [at]
    while todo:
        row, column = divmod(todo.pop(), size)
        for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            other = r * size + c
            if not (0 <= r < size and 0 <= c < size) or other in seen:
                continue
            if board[other] == 0:
                liberties.add(other)
            elif board[other] == board[at]:
                seen.add(other)
                todo.append(other)
    return seen, liberties


def naive_play(board, at, colour, size):
    """The stones after a move, or nothing if it is suicide or the point is taken."""
    if board[at]:
        return None
    after = list(board)
    after[at] = colour
    row, column = divmod(at, size)
    for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if 0 <= r < size and 0 <= c < size and after[r * size + c] == -colour:
            stones, liberties = naive_chain(after, r * size + c, size)
            if not liberties:
                for stone in stones:
                    after[stone] = 0
    return tuple(after) if naive_chain(after, at, size)[1] else None


def naive_score(board, size):
    """Area by flooding from each empty point."""
    score = sum(board)
    for at in range(size * size):
        if board[at] == 0:
            # The empty region that the point is in, as if it was a chain; what it touches is no liberty here.
            region = {at}
            todo, touched = [at], set()
            while todo:
                row, column = divmod(todo.pop(), size)
                for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                    other = r * size + c
                    if 0 <= r < size and 0 <= c < size and other not in region:
                        if board[other]:
                            touched.add(board[other])
                        else:
                            region.add(other)
                            todo.append(other)
            score += touched.pop() if len(touched) == 1 else 0
    return score


@pytest.mark.parametrize(("size", "moves"), [(3, 60), (5, 100), (9, 160)])
def test_boards_side_by_side_equal_a_naive_one_each(size, moves):
    games, points, random = 4, size * size, np.random.default_rng(size)
    boards = go.start(games, size)
    past = boards.key[:, None]
    naive = [(0,) * points for _ in range(games)]
    seen = [{board} for board in naive]
    forbidden = 0
    for turn in range(moves):
        colour = go.BLACK if turn % 2 == 0 else go.WHITE
        allowed = go.legal(boards, past)
        chosen = np.full(games, points)
        after = []
        for game, board in enumerate(naive):
            nexts = [naive_play(board, at, colour, size) for at in range(points)]
            expected = [each is not None and each not in seen[game] for each in nexts]
            forbidden += sum(each is not None and each in seen[game] for each in nexts)
            assert allowed[game].tolist() == [*expected, True]
            if any(expected) and random.random() > 0.05:
                chosen[game] = random.choice(np.flatnonzero(expected))
            after.append(board if chosen[game] == points else nexts[chosen[game]])
            seen[game].add(after[-1])
        boards, naive = go.play(boards, chosen), after
        past = np.concatenate([past, boards.key[:, None]], 1)
        assert boards.stones[:, :-1].tolist() == [list(board) for board in naive]
        for game, board in enumerate(naive):
            liberties = [len(naive_chain(board, at, size)[1]) if board[at] else 0 for at in range(points)]
            assert boards.liberties[game, :-1].tolist() == liberties
        assert go.scores(boards).tolist() == [naive_score(board, size) for board in naive]
    if size < 9:
        assert forbidden > 0


def test_what_the_network_sees_of_a_position():
    game = Record(position(KO)).play("C3 E5")
    board = game.board
    seen = go.planes(board, go.legal(board, game.past))[0]
    assert seen.shape == (go.PLANES, 5, 5) == (13, 5, 5)

    def marked(plane):
        return {f"{COLUMNS[c]}{5 - r}" for r, c in zip(*np.nonzero(plane), strict=True)}

    assert marked(seen[0]) == marked(seen[2]) == {"A3", "B2", "B4", "C3"}
    assert marked(seen[1]) == {"C2", "C4", "D3", "E5"}
    assert marked(seen[3]) == {"C2", "C4", "D3"}
    assert marked(seen[4]) == {"A3", "B2", "B4"}
    assert marked(seen[5]) == {"B3", "C2", "C4", "D3"}
    assert seen[8].all()
    assert marked(seen[9]) == {"C3"}
    assert marked(seen[10]) == {"C2", "C4", "E5"}
    assert marked(seen[11]) == {"A3", "B2", "B4", "D3"}
    assert not seen[12].any()
    # White to play captures at B3, but for the ko.
    for passes, captures in ("C3", set()), ("C3 E5 E1", {"B3"}):
        game = Record(position(KO)).play(passes)
        seen = go.planes(game.board, go.legal(game.board, game.past))[0]
        assert not seen[8].any()
        assert marked(seen[12]) == captures


def test_symmetries_are_the_eight_of_a_square():
    tables = go.symmetries(3)
    assert len({tuple(table) for table in tables}) == 8
    near = {
        frozenset((at, int(other))) for at, row in enumerate(go.neighbours(3)) for other in row if other < 9
    }
    for table in tables:
        assert sorted(table) == list(range(10))
        assert table[9] == 9
        assert {frozenset(int(table[at]) for at in pair) for pair in near} == near
