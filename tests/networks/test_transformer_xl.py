import dataclasses
import math

import pytest
import torch
from torch import distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from accelmark.networks.language import transformer_xl as txl


def small(**changes):
    plain = dataclasses.replace(
        txl.BASE_TINY, dropout=0.0, attention_dropout=0.0, sequence_length=6, memory_length=6, vocabulary=50
    )
    return dataclasses.replace(plain, **{"cutoffs": (10, 30), **changes})


def build(config, scale=1.0):
    torch.manual_seed(0)
    module = txl.TransformerXL(config).double().eval()
    module.frequencies = 10_000 ** -(torch.arange(0, config.width, 2, dtype=torch.float64) / config.width)
    with torch.no_grad():
        # At their initial size the biases, positions and tails hardly show in the result.
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3 * scale)
    return module


def tokens(config, length, batch=2):
    return torch.randint(config.vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (4, 4), (4, 9), (7, 8)])
def test_relative_shift_equals_a_loop(queries, keys):
    scores = torch.randn(2, 3, queries, keys + 1)
    shifted = txl.relative_shift(scores)
    assert shifted.shape == (2, 3, queries, keys)
    for i in range(queries):
        for j in range(keys - queries + i + 1):
            distance = keys - queries + i - j
            assert torch.equal(shifted[..., i, j], scores[..., i, keys - 1 - distance])


def test_relative_shift_copies_nothing():
    scores = torch.randn(2, 3, 4, 10)
    assert txl.relative_shift(scores).untyped_storage().data_ptr() == scores.untyped_storage().data_ptr()


def attention_by_position(layer, x, memory, u, v):
    """The paper's equation, one query, key and head at a time."""
    context = torch.cat([memory, x], 1)
    batch, queries, width = x.shape
    heads, size, past = layer.heads, layer.head_width, memory.shape[1]
    frequencies = 10_000 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    w_key, w_value = layer.key_value.weight.chunk(2)
    out = torch.zeros(batch, queries, heads, size, dtype=torch.float64)
    for b in range(batch):
        for i in range(queries):
            for h in range(heads):
                rows = slice(h * size, (h + 1) * size)
                q = layer.query.weight[rows] @ x[b, i]
                scores, values = [], []
                for j in range(past + i + 1):
                    angle = (past + i - j) * frequencies
                    r = layer.position.weight[rows] @ torch.cat([angle.sin(), angle.cos()])
                    k = w_key[rows] @ context[b, j]
                    scores.append((q @ k + q @ r + u[h] @ k + v[h] @ r) / math.sqrt(size))
                    values.append(w_value[rows] @ context[b, j])
                out[b, i, h] = torch.stack(scores).softmax(0) @ torch.stack(values)
    return out.flatten(-2)


@pytest.mark.parametrize("past", [0, 5])
def test_attention_equals_the_equation_position_by_position(past):
    config = small()
    module = build(config)
    layer, seen = module.layers[0], {}
    attend = layer.attend

    def spy(x, memory, *rest):
        seen["x"], seen["memory"], seen["out"] = x, memory, attend(x, memory, *rest)
        return seen["out"]

    layer.attend = spy
    memory = [torch.randn(2, past, config.width, dtype=torch.float64) for _ in module.layers] if past else []
    data = tokens(config, 4)
    with torch.no_grad():
        module(data, data, *memory)
        before = seen["x"][:, :0] if seen["memory"] is None else seen["memory"]
        expected = attention_by_position(layer, seen["x"], before, module.u, module.v)
    torch.testing.assert_close(seen["out"], expected, rtol=1e-9, atol=1e-9)


def test_two_segments_with_memory_equal_one_long_segment():
    # With a memory no shorter than what came before, every layer of the second segment sees exactly what it
    # sees in the long one.
    config = small(layers=3)
    module = build(config)
    text, following = tokens(config, 12), tokens(config, 13)[:, 1:]
    with torch.no_grad():
        long, _ = module(text, following)
        first, memory = module(text[:, :6], following[:, :6])
        second, _ = module(text[:, 6:], following[:, 6:], *memory)
    torch.testing.assert_close(torch.cat([first, second], 1), long, rtol=1e-9, atol=1e-9)


def test_memory_keeps_the_last_states_when_longer_than_a_segment():
    config = small(memory_length=9)
    module = build(config)
    text = tokens(config, 18)
    memory = ()
    lengths, inputs = [], []
    for segment in text.split(6, 1):
        _, memory = module(segment, segment, *memory)
        lengths.append(memory[0].shape[1])
        inputs.append(module.vocabulary.embed(segment))
    assert lengths == [6, 9, 9]
    torch.testing.assert_close(memory[0], torch.cat(inputs, 1)[:, -9:].detach())
    assert not any(m.requires_grad for m in memory)


def test_future_tokens_change_nothing():
    config = small()
    module = build(config)
    data = tokens(config, 6)
    changed = data.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % config.vocabulary
    target = tokens(config, 6)
    with torch.no_grad():
        before, after = module(data, target)[0], module(changed, target)[0]
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


VARIANTS = [
    pytest.param({}, id="adaptive"),
    pytest.param({"divisor": 4}, id="adaptive-narrowing"),
    pytest.param({"cutoffs": ()}, id="full-softmax"),
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_log_probabilities_sum_to_one_and_give_the_loss(variant):
    config = small(**variant)
    vocabulary = build(config).vocabulary
    hidden = torch.randn(40, config.width, dtype=torch.float64)
    target = torch.arange(40) % config.vocabulary
    log_probabilities = vocabulary.log_probabilities(hidden)
    assert log_probabilities.shape == (40, config.vocabulary)
    torch.testing.assert_close(log_probabilities.exp().sum(1), torch.ones(40), rtol=1e-5, atol=1e-5)
    loss = vocabulary.negative_log_likelihood(hidden, target)
    torch.testing.assert_close(loss, -log_probabilities[torch.arange(40), target], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("divisor", [1, 4])
def test_adaptive_softmax_equals_a_naive_one(divisor):
    config = small(divisor=divisor)
    vocabulary = build(config).vocabulary
    hidden = torch.randn(5, config.width, dtype=torch.float64)
    expected = torch.zeros(5, 50, dtype=torch.float64)
    for n in range(5):
        head_hidden = hidden[n] if divisor == 1 else vocabulary.head_projection.T @ hidden[n]
        scores = [head_hidden @ vocabulary.table(0)[w] + vocabulary.bias[w] for w in range(10)]
        scores += [head_hidden @ vocabulary.cluster_weight[i] + vocabulary.cluster_bias[i] for i in range(2)]
        head = torch.stack(scores).log_softmax(0)
        expected[n, :10] = head[:10]
        for i, (start, end) in enumerate([(10, 30), (30, 50)], 1):
            narrow = hidden[n] if divisor == 1 else vocabulary.projections[i].T @ hidden[n]
            tail = vocabulary.table(i) @ narrow + vocabulary.bias[start:end]
            expected[n, start:end] = head[9 + i] + tail.log_softmax(0)
    actual = vocabulary.log_probabilities(hidden)
    torch.testing.assert_close(actual, expected.float(), rtol=1e-5, atol=1e-5)


def test_adaptive_softmax_equals_torch_where_torch_can_do_the_same():
    # torch's head has a bias but its tails have none, and each tail has a projection of its own.
    config = small(divisor=4)
    vocabulary = build(config).vocabulary
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(
        config.width, config.vocabulary, list(config.cutoffs), div_value=4.0, head_bias=True
    ).double()
    with torch.no_grad():
        vocabulary.bias[config.cutoffs[0] :] = 0
        head = torch.cat([vocabulary.table(0), vocabulary.cluster_weight])
        theirs.head.weight.copy_(head @ vocabulary.head_projection.T)
        theirs.head.bias.copy_(torch.cat([vocabulary.bias[:10], vocabulary.cluster_bias]))
        for i, tail in enumerate(theirs.tail, 1):
            tail[0].weight.copy_(vocabulary.projections[i].T)
            tail[1].weight.copy_(vocabulary.table(i))
    hidden = torch.randn(60, config.width, dtype=torch.float64)
    target = torch.arange(60) % config.vocabulary
    loss = vocabulary.negative_log_likelihood(hidden, target)
    torch.testing.assert_close(loss, -theirs(hidden, target).output.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_embedding_equals_a_lookup_word_by_word(variant):
    config = small(**variant)
    vocabulary = build(config).vocabulary
    data = torch.arange(50).flip(0).view(2, 25)
    for row, ids in zip(vocabulary.embed(data).flatten(0, 1), data.flatten().tolist(), strict=True):
        cluster = sum(ids >= cutoff for cutoff in config.cutoffs)
        vector = vocabulary.table(cluster)[ids - vocabulary.starts[cluster]]
        if vocabulary.projections:
            vector = vocabulary.projections[cluster] @ vector
        torch.testing.assert_close(row, vector * math.sqrt(config.width))


def test_every_parameter_has_a_gradient_when_no_token_is_rare():
    module = txl.TransformerXL(small(divisor=4))
    data = torch.zeros(2, 6, dtype=torch.long)
    module(data, data)[0].mean().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_without_a_target_scores_the_next_word():
    config = small()
    module = build(config)
    data = tokens(config, 6)
    with torch.no_grad():
        log_probabilities, _ = module(data)
        losses, _ = module(data, data)
    assert log_probabilities.shape == (2, config.vocabulary)
    torch.testing.assert_close(-log_probabilities[torch.arange(2), data[:, -1]], losses[:, -1])


def test_tokens_have_the_frequencies_of_english():
    frequencies = txl.cumulative_frequencies(267_735)
    assert frequencies[0].item() == pytest.approx(0.06, abs=0.005)
    rarest = (frequencies[-1] - frequencies[-2]).item() * 103_227_021
    assert rarest == pytest.approx(3, abs=0.1)
    data, target, _ = txl.TransformerXLBase().batch(txl.BASE, 64, torch.Generator().manual_seed(0))
    assert torch.equal(data[:, 1:], target[:, :-1])
    assert (target < 19_997).float().mean().item() == pytest.approx(0.966, abs=0.01)


def test_trains_under_distributed_data_parallel(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        network, config = txl.TransformerXLLarge(), txl.LARGE_TINY
        torch.manual_seed(0)
        module = DistributedDataParallel(network.build(config))
        optimizer = network.optimizer(module, config)
        random, state = torch.Generator().manual_seed(0), None
        for _ in range(3):
            optimizer.zero_grad()
            loss, state = network.loss(module, network.batch(config, 2, random), state)
            loss.backward()
            optimizer.step()
        assert math.isfinite(loss.item())
        assert len(state) == config.layers
    finally:
        dist.destroy_process_group()


def test_full_softmax_loss_is_plain_cross_entropy():
    config = small(cutoffs=())
    vocabulary = build(config).vocabulary
    hidden = torch.randn(7, config.width, dtype=torch.float64)
    target = torch.arange(7)
    logits = hidden @ vocabulary.tables[0].T + vocabulary.bias
    expected = functional.cross_entropy(logits, target, reduction="none").float()
    actual = vocabulary.negative_log_likelihood(hidden, target)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
