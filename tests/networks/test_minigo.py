"""Minigo: its network, its search against the formula, and its three phases."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from accelmark.networks.catalog import parameter_count
from accelmark.networks.games import go
from accelmark.networks.games.evaluation import Match, match
from accelmark.networks.games.learning import WINDOW, extended, steps_on, train
from accelmark.networks.games.search import Evaluator, Play, Tree, pick, puct, search, turn
from accelmark.networks.games.self_play import self_play

from .sweep import NETWORKS, generator, tiny
from .test_go import KO, Record, point, position

MINIGO = NETWORKS["minigo"]
PLAY = Play(size=5, readouts=12, fast_readouts=4, fast_share=0, side_by_side=4, leaves=1, resign=-1)


class Fake:
    """Answers with the same logits and value for every position, and notes how many it was asked."""

    def __init__(self, logits=None, value=0.0):
        self.logits, self.value, self.batches = logits, value, []

    def __call__(self, planes):
        self.batches.append(len(planes))
        moves = planes.shape[-1] ** 2 + 1
        logits = torch.zeros(moves) if self.logits is None else torch.as_tensor(self.logits)
        return logits.float().expand(len(planes), -1), torch.full((len(planes),), self.value)


def preferring(weights, size=5):
    """Logits that prefer moves by the shares given with their names; the rest share what is left."""
    moves = size * size + 1
    shares = np.full(moves, (1 - sum(weights.values())) / (moves - len(weights)))
    for name, weight in weights.items():
        shares[point(name, size)] = weight
    return np.log(shares)


def test_parameters_are_those_counted_by_hand():
    with torch.device("meta"):
        module = MINIGO.build(MINIGO.sizes["full"])
    stem, blocks = 13 * 64 * 9 + 2 * 64, 6 * 2 * (64 * 64 * 9 + 2 * 64)
    policy = 64 * 2 + (2 * 361 + 1) * 362
    value = 64 + (361 + 1) * 64 + 64 + 1
    assert parameter_count(module) == stem + blocks + policy + value == 736_671


def test_loss_is_the_cross_entropy_and_half_the_squared_error():
    config, module = tiny(MINIGO)
    batch = MINIGO.batch(config, 8, generator())
    loss, _ = MINIGO.loss(module.eval(), batch, None)
    logits, values = module(batch["planes"])
    policy = -(batch["visits"] * logits.log_softmax(1)).sum(1)
    value = (values - batch["outcomes"]) ** 2
    assert loss.item() == pytest.approx((policy + 0.5 * value).mean().item(), rel=1e-5)


def test_all_but_biases_decay():
    config, module = tiny(MINIGO)
    decayed, free = MINIGO.optimizer(module, config).param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (1e-4, 0)
    assert {p.ndim for p in decayed["params"]} == {1, 2, 4}
    assert {p.ndim for p in free["params"]} == {1}


def test_batches_are_positions_of_games():
    batch = MINIGO.batch(MINIGO.sizes["full"], 320, generator())
    planes, visits = batch["planes"], batch["visits"]
    assert planes.shape == (320, 13, 19, 19)
    stones = planes[:, 0] | planes[:, 1]
    assert not (planes[:, 0] & planes[:, 1]).any()
    # Every stone has one of the planes of liberties, and nothing else has.
    assert torch.equal(stones, planes[:, 9:12].any(1))
    assert (visits[:, :-1].view(-1, 19, 19)[stones] == 0).all()
    torch.testing.assert_close(visits.sum(1), torch.ones(320))
    assert set(batch["outcomes"].tolist()) == {-1.0, 1.0}
    counts = stones.sum((1, 2))
    assert counts.min() < 30
    assert counts.max() > 120
    black = planes[:, 8, 0, 0].float().mean()
    assert 0.3 < black < 0.7


def test_a_turned_board_turns_its_moves():
    board = position("X.... .O... ..... ....X .....")
    planes = torch.from_numpy(go.planes(board, go.legal(board, board.key[:, None])))
    for table in torch.from_numpy(go.symmetries(5)):
        turned, moves = turn(planes, torch.arange(26)[None], table[None])
        assert moves[0, -1] == 25
        assert torch.equal(turned.flatten(2)[0, 0], planes.flatten(2)[0, 0][moves[0, :-1]])


def test_an_evaluator_turns_its_answers_back():
    class Points(torch.nn.Module):
        """A network that looks at each point alone, so that turning the board does not matter."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(13.0))

        def forward(self, planes):
            logits = torch.einsum("nphw,p->nhw", planes.float(), self.weight).flatten(1)
            return torch.cat([logits, torch.full((len(planes), 1), 7.0)], 1), logits.sum(1)

    planes = MINIGO.batch(MINIGO.sizes["tiny"], 16, generator())["planes"]
    module = Points()
    for ours, theirs in zip(
        Evaluator(module, np.random.default_rng(0))(planes), Evaluator(module)(planes), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_scores_are_those_of_the_formula():
    visits, totals, priors = np.array([[3, 1, 0]]), np.array([[1.2, -0.4, 0.1]]), np.array([[0.5, 0.3, 0.2]])
    for sign in (1, -1):
        expected = [
            sign * w / (1 + n)
            + 2 * (math.log((1 + 5 + 19652) / 19652) + 1.25) * math.sqrt(5 - 1) * p / (1 + n)
            for n, w, p in zip(visits[0], totals[0], priors[0], strict=True)
        ]
        assert puct(visits, totals, priors, np.array([[sign]]))[0] == pytest.approx(expected)


def test_the_first_visits_are_those_of_a_search_by_hand():
    # Black's value is 0.2 everywhere, and 0 where a move was not tried: 0.2 less the penalty. The factor is
    # 2.5 and a little. First the likeliest, A5: 2.5 x 0.5; then B5, with 0.75 to (0.2 + 1.25) / 2; then A5
    # again, with (0.2 + 3.5 x 0.5) / 2 to (0.2 + 3.5 x 0.3) / 2.
    fake = Fake(preferring({"A5": 0.5, "B5": 0.3}), 0.2)
    board = go.start(1, 5)
    for readouts, expected in ((1, (1, 0)), (2, (1, 1)), (3, (2, 1))):
        found = search(board, board.key[:, None], fake, PLAY, readouts)
        assert tuple(found.visits[0, :2]) == expected
        assert found.visits.sum() == readouts
        assert found.values[0] == pytest.approx(0.2)


@pytest.mark.parametrize("leaves", [1, 4])
def test_every_game_has_its_visits_and_values_stay_means(leaves):
    boards = go.start(6, 5)
    for move in ([0, 1, 2, 3, 4, 25], [7, 8, 9, 10, 11, 12]):
        boards = go.play(boards, np.array(move))
    fake = Fake(value=0.25)
    found = search(boards, boards.key[:, None], fake, replace(PLAY, leaves=leaves), 24)
    assert (found.visits.sum(1) == 24).all()
    # No game ended in so few moves.
    assert found.values == pytest.approx([0.25] * 6)
    assert sum(fake.batches) == 6 * 25
    # One leaf of each game, or as many of each as asked for.
    assert fake.batches == [6] + [6 * leaves] * (24 // leaves)


def test_noise_moves_visits_and_follows_its_seed():
    board = go.start(1, 5)

    def visits(seed):
        random = None if seed is None else np.random.default_rng(seed)
        return search(board, board.key[:, None], Fake(), PLAY, 30, random).visits.tolist()

    assert visits(1) == visits(1) != visits(2)
    assert visits(1) != visits(None)


def test_it_finds_the_pass_that_wins():
    # White has passed, and Black's area is all.
    game = Record(go.start(1, 5)).play("C3 pass")
    found = search(game.board, game.past, Fake(), PLAY, 100)
    assert found.visits[0].argmax() == 25
    assert found.values[0] > 0.5


def test_it_finds_the_capture_that_decides_the_last_move():
    # Black has 17 points to 7 if White's stone on the left goes, and else at most 14 to 8: too few for komi.
    game = Record(position(".XXX. .XXXO .XXOO OXXOO XXXO."))
    game.board.moves[:] = PLAY.longest - 1
    found = search(game.board, game.past, Fake(), PLAY, 60)
    assert found.visits[0].argmax() == point("A3", 5)
    assert found.visits[0].max() > 30
    assert found.values[0] > 0


def test_no_move_in_the_tree_takes_a_ko_back():
    game = Record(position(KO))
    fake = Fake(preferring({"C3": 0.5, "B3": 0.4}))
    tree = Tree(game.board, game.past, PLAY, 20)
    tree.expand(np.array([0]), fake)
    left = np.array([8])
    while left.any():
        tree.expand(tree.leaves(left), fake)
    child = tree.children[0, point("C3", 5)]
    assert child
    assert tree.expanded[child]
    assert not tree.allowed[child, point("B3", 5)]
    other = tree.children[0, point("B3", 5)]
    assert not other or tree.allowed[other, point("C3", 5)]


def test_soft_moves_are_drawn_by_visits_and_are_no_passes():
    visits = np.tile([[10, 0, 30, 60]], (2000, 1))
    random = np.random.default_rng(0)
    assert set(pick(visits, np.zeros(2000, bool), random)) == {3}
    drawn = np.bincount(pick(visits, np.ones(2000, bool), random), minlength=4)
    assert drawn[1] == drawn[3] == 0
    assert drawn[2] / 2000 == pytest.approx(30**0.98 / (30**0.98 + 10**0.98), abs=0.03)
    assert pick(np.array([[0, 0, 0, 5]]), np.array([True]), random) == [3]


def test_self_play_keeps_batches_full_and_gives_every_position_its_games_end():
    config, module = tiny(MINIGO)
    play = replace(config.play, readouts=8, side_by_side=4)
    asked = []

    def evaluate(planes):
        asked.append(len(planes))
        return Evaluator(module)(planes)

    played = self_play(evaluate, play, 10, np.random.default_rng(0))
    assert played.games == 10
    assert len(played.planes) == len(played.visits) == len(played.outcomes) == played.moves
    torch.testing.assert_close(played.visits.sum(1), torch.ones(played.moves))
    assert set(played.outcomes.tolist()) <= {-1.0, 1.0}
    # A beginning has an empty board, and there is one for each game.
    assert int((~played.planes[:, :8].flatten(1).any(1) & played.planes[:, 8, 0, 0]).sum()) >= 10
    # Where a game has readouts left it is in the batch; while there are games to begin, all are.
    assert max(asked) == 4
    assert sum(count == 4 for count in asked) > 0.5 * len(asked)


def test_passing_games_are_whites():
    always_pass = Fake(preferring({"pass": 0.999}))
    played = self_play(always_pass, replace(PLAY, readouts=1), 6, np.random.default_rng(0))
    assert played.moves == 2 * 6
    assert (played.outcomes == -1).all()


def test_of_fast_searches_no_position_is_kept():
    fake = Fake(preferring({"pass": 0.999}))
    played = self_play(fake, replace(PLAY, fast_share=1, fast_readouts=1), 4, np.random.default_rng(0))
    assert (played.games, played.moves, len(played.planes)) == (4, 8, 0)
    # For the second pass in a row the network is not asked.
    assert fake.batches == [4, 4, 4]


def test_who_sees_no_way_to_win_gives_up():
    fake = Fake(value=-1.0)
    played = self_play(fake, replace(PLAY, resign=-0.9), 4, np.random.default_rng(0))
    assert played.moves == 4
    assert (played.outcomes == -1).all()


def test_training_says_how_many_positions_it_took_and_changes_the_network():
    config, module = tiny(MINIGO)
    played = self_play(Evaluator(module), replace(config.play, readouts=4), 4, np.random.default_rng(0))
    before = copy.deepcopy(module.state_dict())
    optimizer = MINIGO.optimizer(module, config)
    assert train(module, optimizer, [played], 8, 3, np.random.default_rng(0)) == 24
    assert any(not torch.equal(before[name], each) for name, each in module.state_dict().items())


def test_who_always_passes_loses():
    passing, searching = Fake(preferring({"pass": 1 - 1e-9})), Fake()
    random = np.random.default_rng(0)
    found = match(searching, passing, replace(PLAY, readouts=40), 20, random)
    assert (found.games, found.wins, found.wins_as_black) == (20, 20, 10)
    assert match(passing, searching, replace(PLAY, readouts=40), 20, random).wins == 0


def test_a_network_against_itself_wins_half():
    config, module = tiny(MINIGO)
    random = np.random.default_rng(0)
    play = replace(config.play, readouts=6)
    found = match(Evaluator(module, random), Evaluator(module, random), play, 60, random)
    _, low, high = found.win_rate
    assert low < 0.5 < high
    assert found.moves >= 2 * found.games


def test_a_win_rate_has_its_interval():
    assert Match(games=100, wins=50, wins_as_black=20, moves=1).win_rate == pytest.approx(
        (0.5, 0.4038, 0.5962), abs=1e-4
    )


def test_a_tiny_run_beats_its_first_checkpoint():
    config, module = tiny(MINIGO)
    first, random = copy.deepcopy(module), np.random.default_rng(0)
    optimizer, window = MINIGO.optimizer(module, config), []
    for _ in range(5):
        window = extended(window, self_play(Evaluator(module, random), config.play, 40, random))
        steps = steps_on(window, config.batch_size, share=3)
        train(module, optimizer, window, config.batch_size, steps, random)
    assert len(window) == WINDOW
    found = match(Evaluator(module, random), Evaluator(first, random), config.play, 100, random)
    _, low, _ = found.win_rate
    assert low > 0.5, found
