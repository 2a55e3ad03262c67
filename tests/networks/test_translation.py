"""Transformer and GNMT: what only networks that translate can get wrong."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from accelmark.networks import lstm
from accelmark.networks.language import beam_search, gnmt, sentence_pairs, transformer

from .sweep import generator, without_chance

BIG, GNMT = transformer.TransformerBig(), gnmt.GNMTV2()
NETWORKS = [BIG, GNMT]


def tiny(network, **changes):
    torch.manual_seed(0)
    config = dataclasses.replace(network.sizes["tiny"], **changes)
    return config, network.build(config).double()


def test_lengths_have_the_corpus_statistics():
    source, target = sentence_pairs.sentence_lengths(100_000, 10_000, generator())
    assert source.double().mean().item() == pytest.approx(28.4, rel=0.01)
    assert target.double().mean().item() == pytest.approx(30.5, rel=0.01)
    # An eighth has more than 50 pieces with beginning and end.
    long = (torch.maximum(source, target) > 48).double().mean().item()
    assert long == pytest.approx(0.15, abs=0.03)
    logs = torch.stack([source, target]).double().log()
    assert torch.corrcoef(logs)[0, 1].item() == pytest.approx(0.95, abs=0.02)
    assert source.min() >= 1


def test_longer_pairs_are_left_out():
    source, target = sentence_pairs.sentence_lengths(1000, 20, generator())
    assert len(source) == len(target) == 1000
    assert max(source.max(), target.max()) == 20


def test_a_batch_is_from_the_middle_half_of_the_tokens():
    pairs = [max(sentence_pairs.middle_pair(255, generator(seed))) for seed in range(100)]
    # Half of the tokens are in sentences of up to 36 pieces, a quarter in those of up to 24, and of over 56.
    assert 20 <= min(pairs) < 28
    assert 48 < max(pairs) <= 66


@pytest.mark.parametrize("tokens", [64, 2560, 10_240])
def test_a_transformer_batch_fills_its_tokens(tokens):
    for seed in range(20):
        batch = BIG.batch(BIG.sizes["full"], tokens, generator(seed))
        pairs, longest = batch["label"].shape
        longer = max(longest, batch["source"].shape[1])
        assert pairs * longer <= tokens
        assert pairs < 8 or pairs % 8 == 0
        if tokens > 64:
            assert (pairs + 8) * longer > tokens
            # What neighbours in the sorted corpus differ by is all the padding there is.
            assert 0.93 < BIG.units(batch) / BIG.padded_units(batch) <= 1


def test_transformer_words_are_counted_and_shifted():
    batch = BIG.batch(BIG.sizes["tiny"], 256, generator())
    label, target = batch["label"], batch["target"]
    lengths = (label == transformer.END).int().argmax(1) + 1
    assert BIG.units(batch) == lengths.sum()
    assert BIG.padded_units(batch) == label.numel()
    for row, length in enumerate(lengths.tolist()):
        assert (label[row, length:] == transformer.PAD).all()
        assert target[row, 0] == transformer.END
        assert torch.equal(target[row, 1:length], label[row, : length - 1])
    assert (batch["source"][:, -1] == transformer.END).all()


def test_a_gnmt_batch_is_of_one_range_of_lengths_and_counts_both_sides():
    for seed in range(10):
        batch = GNMT.batch(GNMT.sizes["full"], 128, generator(seed))
        source = (batch["source"] != gnmt.PAD).sum(1)
        target = (batch["labels"] != gnmt.PAD).sum(1)  # without its beginning
        assert torch.equal(source, batch["lengths"])
        assert len(source) == 128
        assert GNMT.units(batch) == source.sum() + target.sum()
        ranges = torch.maximum(source, target + 1) // 10
        assert (ranges == ranges[0]).all()
        # The decoder never reads an end, and reads as many words as it has to say.
        assert not (batch["target"] == gnmt.END).any()
        assert torch.equal((batch["target"] != gnmt.PAD).sum(1), target)
        assert 0.6 < GNMT.units(batch) / GNMT.padded_units(batch) < 0.95


def test_padding_and_labels_smoothed_by_hand():
    logits = torch.randn(2, 3, 7, generator=generator(), dtype=torch.float64)
    labels = torch.tensor([[4, 5, 1], [6, 1, 1]])
    total = 0.0
    for row, place, word in [(0, 0, 4), (0, 1, 5), (1, 0, 6)]:
        logs = logits[row, place].log_softmax(-1)
        total -= 0.9 * logs[word].item() + 0.1 * logs.mean().item()
    loss = sentence_pairs.smoothed_cross_entropy(logits, labels, 1)
    assert loss.item() == pytest.approx(total / 3, rel=1e-5)
    summed = sentence_pairs.smoothed_cross_entropy(logits, labels, 1, reduction="sum")
    assert summed.item() == pytest.approx(total, rel=1e-5)


def forward_flops(network, call):
    config = network.sizes["full"]
    with torch.device("meta"):
        module = network.build(config)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            outputs = call(module)
    return outputs, counter.get_total_flops()


def test_transformer_shapes_and_operations_at_full_size():
    outputs, flops = forward_flops(
        BIG, lambda m: m(torch.zeros(8, 25, dtype=torch.long), torch.zeros(8, 30, dtype=torch.long))
    )
    assert outputs.shape == (8, 30, 33_712)
    w, inner = 1024, 4096
    source = 6 * (4 * w * w + 2 * w * inner + 2 * 25 * w)
    target = 6 * (4 * w * w + 2 * w * w + 2 * w * inner + 2 * 30 * w + 2 * 25 * w) + w * 33_712
    memory = 6 * 2 * w * w
    assert flops == pytest.approx(2 * 8 * (25 * (source + memory) + 30 * target), rel=0.01)


def test_gnmt_shapes_and_parameters_at_full_size():
    arguments = torch.zeros(8, 25, dtype=torch.long), torch.full((8,), 25), torch.zeros(8, 30).long()
    outputs, _ = forward_flops(GNMT, lambda m: m(*(x.to("meta") for x in arguments)))
    assert outputs.shape == (8, 30, 32_320)
    w = 1024
    one, two = 4 * w * (w + w + 2), 4 * w * (2 * w + w + 2)
    encoder = 2 * one + two + 2 * one
    decoder = one + 3 * two + 2 * w * w + 2 * w + 1
    words = 2 * 32_320 * w + 32_320
    with torch.device("meta"):
        module = GNMT.build(GNMT.sizes["full"])
    assert sum(p.numel() for p in module.parameters()) == encoder + decoder + words == 160_671_297


def test_attention_equals_the_formula_head_by_head():
    config, module = tiny(BIG)
    attention = without_chance(module.decoder[0].source)
    x = torch.randn(2, 3, config.width, dtype=torch.float64)
    memory = torch.randn(2, 5, config.width, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    q = x @ attention.query.weight.T
    k, v = (memory @ attention.key_value.weight.T).chunk(2, -1)
    size = config.width // config.heads
    mixed = torch.zeros_like(x)
    for row, head in itertools.product(range(2), range(config.heads)):
        part = slice(head * size, (head + 1) * size)
        scores = q[row, :, part] @ k[row, :, part].T / math.sqrt(size)
        scores[:, ~mask[row]] = -math.inf
        mixed[row, :, part] = scores.softmax(-1) @ v[row, :, part]
    expected = mixed @ attention.out.weight.T
    torch.testing.assert_close(attention(x, memory, mask[:, None, None]), expected)


def test_a_later_target_word_changes_nothing_before_it():
    config, module = tiny(BIG)
    without_chance(module)
    batch = BIG.batch(config, 128, generator())
    changed = batch["target"].clone()
    changed[:, 5] = 7
    before, after = module(batch["source"], batch["target"]), module(batch["source"], changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("network", NETWORKS)
def test_padding_changes_no_translation(network):
    config, module = tiny(network)
    inputs = network.inference_inputs(config, 4, generator())
    translate = network.inference(module, config)
    together = translate(*inputs)
    for row in range(4):
        alone = [x[row : row + 1] for x in inputs]
        length = int((inputs[0][row] != together.new_tensor(0)).sum()) if network is GNMT else None
        if length is None:
            length = int((inputs[0][row] != transformer.PAD).sum())
        alone[0] = alone[0][:, :length]
        assert torch.equal(translate(*alone)[0], together[row, :length])
        assert len(set(together[row, length:].tolist())) <= 1


def test_sentences_are_turned_within_their_lengths():
    x = torch.arange(10.0).view(2, 5, 1)
    assert lstm.turned(x, torch.tensor([5, 3])).squeeze(-1).tolist() == [[4, 3, 2, 1, 0], [7, 6, 5, 8, 9]]


def test_the_first_layer_is_the_bidirectional_one_of_packed_sentences():
    _, module = tiny(GNMT)
    module.eval()
    width = module.embedding.embedding_dim
    both = nn.LSTM(width, width, batch_first=True, bidirectional=True).double()
    for name, weight in module.forwards.named_parameters():
        getattr(both, name).data = weight.data
        getattr(both, f"{name}_reverse").data = getattr(module.backwards, name).data
    source, lengths = gnmt.sentences(torch.tensor([9, 6, 4]), 300, generator())
    x = module.embedding(source)
    packed, _ = both(pack_padded_sequence(x, lengths, batch_first=True))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    ours = torch.cat(
        [module.forwards(x), lstm.turned(module.backwards(lstm.turned(x, lengths)), lengths)], -1
    )
    real = (torch.arange(9) < lengths[:, None])[..., None]
    torch.testing.assert_close(ours * real, expected * real)


def test_bahdanau_attention_equals_the_formula():
    torch.manual_seed(0)
    attention = gnmt.Attention(6).double()
    query, keys = torch.randn(1, 2, 6).double(), torch.randn(1, 3, 6).double()
    mask = torch.tensor([[[True, True, False]]])
    for step in range(2):
        vector = attention.vector / attention.vector.norm() * attention.length
        energies = [
            vector @ (attention.query.weight @ query[0, step] + keys[0, place] + attention.bias).tanh()
            for place in range(2)
        ]
        expected = torch.stack(energies).softmax(0)
        weights = attention(query, keys, mask)[0, step]
        torch.testing.assert_close(weights[:2], expected, check_dtype=False)
        assert weights[2] == 0


def test_word_by_word_gnmt_scores_like_over_the_whole_sentence():
    config, module = tiny(GNMT)
    module.eval()
    batch = GNMT.batch(config, 3, generator())
    expected = module(batch["source"], batch["lengths"], batch["target"])
    memory, keys, mask = module.encode(batch["source"], batch["lengths"])
    state = (memory.new_zeros(3, config.width),) * (2 * config.layers)
    for place in range(batch["target"].shape[1]):
        scores, weights, state = module.next_word(batch["target"][:, place], state, memory, keys, mask)
        torch.testing.assert_close(scores, expected[:, place])
        assert weights.sum(1).tolist() == pytest.approx([1] * 3)


def test_word_by_word_the_transformer_scores_like_over_the_whole_sentence():
    config, module = tiny(BIG)
    module.eval()
    batch = BIG.batch(config, 128, generator())
    source, target = batch["source"], batch["target"]
    expected = module(source, target)
    mask = torch.ones(len(source), 1, 1, source.shape[1], dtype=torch.bool)
    memory = module.encode(module.embedding(source), mask)
    room = (len(source), config.heads, target.shape[1], config.width // config.heads)
    kept = [[memory.new_zeros(room)] * 2 for _ in module.decoder]
    for place in range(target.shape[1]):
        x = module.embedding(target[:, place : place + 1]) * module.scale + module.positions[place]
        for i, layer in enumerate(module.decoder):
            read = layer.source.split(layer.source.key_value(memory), 2)
            x, *kept[i] = layer.next_word(x, kept[i], read, mask, torch.tensor(place))
        torch.testing.assert_close(module.score(x).squeeze(1), expected[:, place])


END, BEGIN = 0, 1


def search(scores, beam, least=0, most=100, longest=4):
    """Beam search in a language where the next word's scores depend on the last word and the place only."""

    def step(previous, at, state):
        return scores[at][previous], (state[0] + 1,)

    def rank(totals, lengths, state):
        return totals / beam_search.length_penalty(lengths)

    limits = torch.full((1,), least), torch.full((1,), most)
    state = (torch.zeros(beam),)
    return beam_search.beam_search(step, state, 1, beam, longest, limits, BEGIN, END, rank)[0].tolist()


def best_of_all(scores, longest):
    """The best sentence of all that there are, its end included if there is room for one."""
    logs = scores.log_softmax(-1)
    ranked = []
    for words in itertools.product(range(scores.shape[-1]), repeat=longest):
        length = words.index(END) if END in words else longest
        if any(words[length:]):
            continue
        said = words[: length + 1]
        total = sum(logs[at][a, b] for at, (a, b) in enumerate(itertools.pairwise((BEGIN, *said))))
        ranked.append((float(total / ((5 + length + 1) / 6) ** 0.6), list(words)))
    return max(ranked)[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_as_wide_as_the_language_finds_the_best_sentence_of_all(seed):
    scores = torch.randn(4, 5, 5, generator=generator(seed), dtype=torch.float64) * 2
    assert search(scores, beam=625) == best_of_all(scores, 4)


def test_a_beam_of_one_takes_the_best_word_each_time():
    scores = torch.randn(4, 5, 5, generator=generator(3))
    words, previous = [], BEGIN
    for at in range(4):
        previous = END if previous == END and words else int(scores[at][previous].argmax())
        words.append(previous)
    assert search(scores, beam=1) == words


def test_translations_are_as_long_as_the_limits_say():
    scores = torch.randn(4, 5, 5, generator=generator(1))
    scores[..., END] = 10
    assert search(scores, beam=2) == [END] * 4
    assert [word != END for word in search(scores, beam=2, least=2)] == [True, True, False, False]
    scores[..., END] = -10
    assert [word != END for word in search(scores, beam=2, most=3)] == [True, True, True, False]
    assert END not in search(scores, beam=2)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_translation_is_as_long_as_its_source(network):
    config, module = tiny(network)
    inputs = network.inference_inputs(config, 5, generator())
    special = 2 if network is GNMT else 1
    end, padding = (gnmt.END, gnmt.PAD) if network is GNMT else (transformer.END, transformer.PAD)
    words = (inputs[0] != padding).sum(1) - special
    translated = network.inference(module, config)(*inputs)
    assert torch.equal((translated != end).sum(1), words)


def test_gnmt_prefers_what_covers_its_source(monkeypatch):
    # Two candidates as probable, one of which attended to all words: the coverage penalty decides.
    config, module = tiny(GNMT)
    translator = GNMT.inference(module, config)
    seen = {}

    def spy(step, state, sentences, beam, longest, limits, begin, end, rank):
        seen["rank"], seen["state"] = rank, state
        return torch.zeros(sentences, longest)

    source, lengths = gnmt.sentences(torch.tensor([4]), config.vocabulary, generator())
    monkeypatch.setattr(gnmt, "beam_search", spy)
    translator(source, lengths)
    covered = torch.full((5, 4), 0.25)
    covered[1] = 1.0
    scores, equal = torch.full((1, 5), -3.0), torch.full((1, 5), 4.0)
    ranks = seen["rank"](scores, equal, (covered, *seen["state"][1:]))[0]
    assert ranks.argmax() == 1
    assert (ranks[1] - ranks[0]).item() == pytest.approx(-0.1 * 4 * math.log(0.25), rel=1e-4)
