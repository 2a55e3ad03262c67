"""NCF, VAE-CF, Wide and Deep and DLRM: what only networks that recommend can get wrong."""

import dataclasses
import itertools

import pytest
import torch
from torch.distributions import Multinomial, Normal, kl_divergence

from accelmark.networks.base import LOOKUPS
from accelmark.networks.recommendation import dlrm, ncf, ranking, vae_cf, wide_and_deep
from accelmark.networks.recommendation.popularity import FILMS, Curve

from .sweep import NETWORKS, generator, tiny

NCF, VAE, WIDE, DLRM = (NETWORKS[name] for name in ("ncf", "vae-cf", "wide-and-deep", "dlrm"))
ALL = [NCF, VAE, WIDE, DLRM]


# Rankings


def test_hit_rate_counts_users_whose_item_is_among_the_first():
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [0.5, 0.5, 0.5]])
    wanted = torch.tensor([2, 2, 0])
    assert ranking.hit_rate(scores, wanted, 1) == 0
    assert ranking.hit_rate(scores, wanted, 2) == pytest.approx(1 / 3)
    # The third user's item scores as all others do, and is last.
    assert ranking.hit_rate(scores, wanted, 3) == 1


def naive_ndcg(scores, wanted, first):
    total = 0.0
    for row, liked in zip(scores.tolist(), wanted.tolist(), strict=True):
        order = sorted(range(len(row)), key=lambda item: -row[item])[:first]
        gain = sum(liked[item] / torch.tensor(k + 2.0).log2().item() for k, item in enumerate(order))
        count = min(int(sum(liked)), first)
        total += gain / sum(1 / torch.tensor(k + 2.0).log2().item() for k in range(count))
    return total / len(scores)


def test_ndcg_is_the_naive_one():
    scores = torch.rand(20, 30, generator=generator())
    wanted = (torch.rand(20, 30, generator=generator(1)) < 0.3).float()
    for first in (1, 5, 100):
        expected = naive_ndcg(scores, wanted, first)
        assert ranking.ndcg(scores, wanted, first).item() == pytest.approx(expected, rel=1e-6)
    assert ranking.ndcg(wanted, wanted, 100) == 1
    # By hand: one of two wanted items at the second place.
    second = 1 / torch.tensor(3.0).log2().item()
    found = ranking.ndcg(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0, 1.0]]), 2)
    assert found.item() == pytest.approx(second / (1 + second))


def test_map_is_the_mean_of_one_over_the_place_of_the_click():
    scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 9.0], [-1.0, -2.0, -3.0]])
    clicked = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    real = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1]])
    # Places 2, 2 (the third advertisement is padding) and 3.
    mean = ranking.mean_average_precision(scores, clicked, real, 12)
    assert mean.item() == pytest.approx((0.5 + 0.5 + 1 / 3) / 3)
    assert ranking.mean_average_precision(scores, clicked, real, 2).item() == pytest.approx(1 / 3)


def test_auc_is_the_share_of_pairs_in_order():
    scores = (torch.rand(200, generator=generator()) * 10).round()
    labels = (torch.rand(200, generator=generator(1)) < 0.3).float()
    pairs = scores[labels > 0][:, None] - scores[labels == 0]
    naive = ((pairs > 0).double() + (pairs == 0).double() / 2).mean()
    assert ranking.auc(scores, labels).item() == pytest.approx(naive.item(), rel=1e-9)
    assert ranking.auc(labels, labels) == 1


# Which rows are looked up


def test_a_curve_draws_rows_as_often_as_it_says():
    curve, rows, count = Curve(exponent=1.2, offset=3.0), 50, 400_000
    drawn = curve.draw(rows, (count,), generator()).bincount(minlength=rows).double() / count
    exact = torch.tensor([curve.share(rows, r + 1) - curve.share(rows, r) for r in range(rows)])
    assert len(drawn) == rows
    assert exact.sum().item() == pytest.approx(1)
    torch.testing.assert_close(drawn, exact.double(), rtol=0.05, atol=1e-4)
    # Near Zipf's law in Mandelbrot's form, of which it is the integral over each row.
    form = (torch.arange(rows) + 3.5).double() ** -1.2
    torch.testing.assert_close(exact.double(), form / form.sum(), rtol=0.02, atol=0)


def test_popular_films_and_rows_have_the_shares_that_are_stated():
    assert FILMS.share(26_744, 1) == pytest.approx(0.0025, rel=0.02)
    assert FILMS.share(26_744, 1000) == pytest.approx(0.66, abs=0.01)
    assert dlrm.CATEGORIES.share(40_000_000, 1) == pytest.approx(0.028, rel=0.02)
    assert dlrm.CATEGORIES.share(40_000_000, 400_000) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("network", ALL, ids=lambda network: network.name)
def test_lookups_are_skewed_or_even(network):
    """By how many different rows a batch looks up: far fewer where a few are common."""
    different = {}
    for kind in LOOKUPS:
        config = network.configure("full", lookups=kind)
        batch = network.batch(config, 4000, generator())
        rows = {
            "ncf": lambda b: b["films"][b["labels"] > 0],
            "vae-cf": lambda b: b["films"][:40],
            "wide-and-deep": lambda b: b["categories"][:, 0],
            "dlrm": lambda b: b["rows"][:, 0],
        }
        different[kind] = len(rows[network.name](batch).unique())
    assert network.sizes["full"].lookups == "skewed"
    assert different["skewed"] < 0.85 * different["uniform"]


# NCF


def test_one_in_five_samples_is_rated_and_users_rate_as_in_movielens():
    config = NCF.sizes["full"]
    batch = NCF.batch(config, 200_000, generator())
    assert batch["labels"].mean().item() == pytest.approx(0.2, abs=1e-5)
    shares = ncf.cumulative_ratings(config.users).diff(prepend=torch.zeros(1, dtype=torch.float64))
    ratings = shares * 20_000_263
    assert ratings.mean().item() == pytest.approx(144.4, rel=0.001)
    assert ratings.median().item() == pytest.approx(68, rel=0.05)
    # Films that are not rated are drawn evenly.
    others = batch["films"][batch["labels"] == 0]
    assert others.double().mean().item() == pytest.approx(config.films / 2, rel=0.01)


def test_scores_are_those_of_the_formula():
    _, module = tiny(NCF)
    module.eval()
    users, films = torch.tensor([3, 7]), torch.tensor([1, 0])
    for i in range(2):
        p, q = module.user_factors.weight[users[i]], module.film_factors.weight[films[i]]
        x = torch.cat([module.user_vectors.weight[users[i]], module.film_vectors.weight[films[i]]])
        for layer in module.layers:
            x = torch.relu(layer.weight @ x + layer.bias)
        expected = module.score.weight[0] @ torch.cat([p * q, x]) + module.score.bias[0]
        torch.testing.assert_close(module(users, films)[i], expected)


# VAE-CF


def test_users_like_as_many_films_as_in_movielens_and_each_once():
    films, counts = vae_cf.liked(VAE.sizes["full"], 4000, generator())
    assert counts.double().mean().item() == pytest.approx(73.1, rel=0.03)
    assert counts.min() >= 4
    for row, count in zip(films[:50], counts, strict=False):
        assert len(row[:count].unique()) == count
        assert (row[count:] == 0).all()


def test_loss_is_the_likelihood_and_the_distance():
    config, module = tiny(VAE)
    module.drop.p = 0.0
    batch = VAE.batch(config, 5, generator())
    likes = torch.zeros(5, config.films)
    for user in range(5):
        likes[user, batch["films"][user, : batch["counts"][user]]] = 1
    for step, weight in ((None, 0.0), (torch.tensor(600.0), 600 / 15_000), (torch.tensor(9e6), 0.1)):
        loss, after = VAE.loss(module, batch, step)
        assert after == (0 if step is None else step) + 1
        # The sums over dense vectors, and the distributions of torch.
        x = likes / likes.norm(dim=1, keepdim=True)
        x = torch.tanh(x @ module.first.weight + module.first_bias)
        mean, log_variance = module.second(x).chunk(2, 1)
        deviation = (log_variance / 2).exp()
        scores = module.decode(mean + deviation * batch["noise"])
        expected = 0.0
        for user in range(5):
            likelihood = Multinomial(int(likes[user].sum()), logits=scores[user]).log_prob(likes[user])
            # Without the number of orders, which no weight changes.
            orders = torch.lgamma(likes[user].sum() + 1)
            distance = kl_divergence(Normal(mean[user], deviation[user]), Normal(0.0, 1.0)).sum()
            expected = expected + weight * distance - (likelihood - orders)
        torch.testing.assert_close(loss, expected / 5, rtol=1e-4, atol=1e-4)


def test_a_film_that_a_user_has_is_recommended_last():
    config, module = tiny(VAE)
    films, counts = VAE.inference_inputs(config, 6, generator())
    scores = VAE.inference(module, config)(films, counts)
    for user in range(6):
        first = scores[user].topk(config.films - int(counts[user])).indices
        assert not set(first.tolist()) & set(films[user, : counts[user]].tolist())


# Wide and Deep


def test_scores_are_the_wide_and_the_deep_part_s():
    config, module = tiny(WIDE)
    with torch.no_grad():
        module.wide.weight.normal_()
        module.wide_numbers.weight.normal_()
    batch = WIDE.batch(config, 3, generator())
    large, small, several = config.rows()
    narrow = [(rows, 1) for rows in small]
    narrow += [(rows, values) for rows, (_, values) in zip(several, wide_and_deep.SEVERAL, strict=True)]
    for i in range(3):
        own, numbers = batch["categories"][i].tolist(), batch["numbers"][i]
        wide, vectors = module.wide_numbers(numbers)[0], []
        wide_start = large_start = small_start = 0
        for rows in large:
            row = own.pop(0)
            vectors.append(module.large.weight[large_start + row])
            wide = wide + module.wide.weight[wide_start + row, 0]
            large_start, wide_start = large_start + rows, wide_start + rows
        for rows, values in narrow:
            mine = [own.pop(0) for _ in range(values)]
            vectors.append(torch.stack([module.small.weight[small_start + row] for row in mine]).mean(0))
            wide = wide + sum(module.wide.weight[wide_start + row, 0] for row in mine)
            small_start, wide_start = small_start + rows, wide_start + rows
        for values in wide_and_deep.FEW:
            row = own.pop(0)
            vectors.append(torch.nn.functional.one_hot(torch.tensor(row), values).float())
            wide = wide + module.wide.weight[wide_start + row, 0]
            wide_start += values
        x = torch.cat([*vectors, numbers])
        for layer in module.layers:
            x = torch.relu(layer(x))
        expected = wide + module.score(x)[0]
        torch.testing.assert_close(module(batch["categories"], batch["numbers"])[i], expected)
        assert not own
        assert wide_start == module.wide.num_embeddings


def test_one_advertisement_of_each_display_is_clicked():
    counts = wide_and_deep.displays(100_000, generator())
    assert counts.min() == 2
    assert counts.max() == 12
    # 87,141,731 advertisements in 16,874,593 displays.
    assert counts.double().mean().item() == pytest.approx(87.14 / 16.87, rel=0.01)
    clicks = wide_and_deep.clicks(100_000, generator())
    assert clicks.mean().item() == pytest.approx(16.87 / 87.14, rel=0.02)
    between = clicks.nonzero().squeeze(1).diff()
    assert between.min() >= 1
    assert between.max() <= 2 * 12 - 1


def test_both_parts_have_their_own_rate():
    config, module = tiny(WIDE)
    wide, deep = WIDE.optimizer(module, config).param_groups
    assert (wide["lr"], deep["lr"]) == (0.2, config.deep_rate)
    assert sum(p.numel() for p in wide["params"]) == module.wide.weight.numel() + 32 + 1


# DLRM


def test_scores_are_of_all_pairs_products():
    config, module = tiny(DLRM)
    batch = DLRM.batch(config, 3, generator())
    starts = [0, *itertools.accumulate(config.rows)]
    for i in range(3):
        x = batch["numbers"][i]
        for layer in module.bottom:
            x = torch.relu(layer(x))
        own = batch["rows"][i]
        vectors = [x] + [module.vectors.weight[starts[k] + own[k]] for k in range(len(config.rows))]
        products = [vectors[a] @ vectors[b] for a in range(27) for b in range(a)]
        assert len(products) == 351
        x = torch.cat([x, torch.stack(products)])
        for layer in module.top[:-1]:
            x = torch.relu(layer(x))
        expected = module.top[-1](x)[0]
        torch.testing.assert_close(module(batch["numbers"], batch["rows"])[i], expected)


def test_a_step_changes_the_rows_that_were_looked_up_and_no_others():
    config, module = tiny(DLRM)
    batch = DLRM.batch(config, 4, generator())
    before = module.vectors.weight.detach().clone()
    dense = torch.nn.Embedding.from_pretrained(before.clone(), freeze=False)
    optimizer = DLRM.optimizer(module, config)
    DLRM.loss(module, batch, None)[0].backward()
    assert module.vectors.weight.grad.is_sparse
    sparse = module.vectors
    gradient = sparse.weight.grad.to_dense()
    module.vectors = dense
    DLRM.loss(module, batch, None)[0].backward()
    torch.testing.assert_close(gradient, dense.weight.grad)
    optimizer.step()
    changed = (sparse.weight.detach() != before).any(1).nonzero().squeeze(1)
    assert set(changed.tolist()) <= set((batch["rows"] + module.starts).flatten().tolist())
    torch.testing.assert_close(sparse.weight.detach(), before - config.learning_rate * gradient)


def test_tables_end_where_they_are_told_to():
    config = DLRM.configure("full", embedding_rows=1000)
    assert config.table_rows == [min(rows, 1000) for rows in dlrm.ROWS]
    assert config.parameters is None
    module = DLRM.build(dataclasses.replace(config, width=4, bottom=(8,), top=(8,)))
    assert module.vectors.num_embeddings == sum(config.table_rows)
    rows = DLRM.batch(config, 5000, generator())["rows"]
    assert (rows < torch.tensor(config.table_rows)).all()
    # The data's own rows, taken modulo: the commonest are the first as before, and the last are used, too.
    uncut = DLRM.batch(DLRM.sizes["full"], 5000, generator())["rows"]
    assert torch.equal(rows, uncut % torch.tensor(config.table_rows))


def test_full_tables_are_criteo_s():
    assert len(dlrm.ROWS) == 26
    assert sum(dlrm.ROWS) == 187_767_399
    assert max(dlrm.ROWS) < 40_000_000


def test_a_query_asks_for_270_pairs_in_the_mean():
    pairs = dlrm.pairs_per_query(50_000, generator())
    assert pairs.double().mean().item() == pytest.approx(270, rel=0.01)
    assert (pairs.min(), pairs.max()) == (100, 700)
