"""GNMT: what its recipe decides, by hand. What it shares with the Transformer is in `test_translation.py`."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from accelmark.networks.language import gnmt

from .sweep import generator, tiny, without_chance

GNMT = gnmt.GNMTV2()


def test_weights_begin_as_in_the_recipe():
    config, module = tiny(GNMT)
    for layer in (each for each in module.modules() if isinstance(each, nn.LSTM)):
        assert (layer.bias_hh_l0 == 0).all()
        for weight in (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0):
            # Of a uniform distribution's largest of 256 and more, a twentieth from the end.
            assert 0.095 < weight.abs().max().item() <= 0.1
    for weight in (module.embedding.weight, module.classifier.weight, module.attention.key.weight):
        assert weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.05)
    assert module.attention.length.item() == pytest.approx(config.width**-0.5)
    assert (module.attention.bias == 0).all()


def test_operations_at_full_size_are_those_of_its_products():
    config = GNMT.sizes["full"]
    with torch.device("meta"):
        module = GNMT.build(config)
        source, target = torch.zeros(8, 25, dtype=torch.long), torch.zeros(8, 30, dtype=torch.long)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(source, torch.full((8,), 25), target)
    w = 1024
    narrow, wide = 4 * w * 2 * w, 4 * w * 3 * w
    encoder = 2 * narrow + wide + 2 * narrow + w * w
    decoder = narrow + 3 * wide + w * w + w * 32_320
    # The attention's scores are a product with a vector, and its sum one with the source's states.
    attention = 30 * 25 * 2 * w
    by_hand = 2 * 8 * (25 * encoder + 30 * decoder + attention)
    assert counter.get_total_flops() == pytest.approx(by_hand, rel=0.001)


def test_loss_is_the_sum_over_tokens_divided_by_the_sentences():
    config, module = tiny(GNMT)
    without_chance(module)
    batch = GNMT.batch(config, 5, generator())
    logs = module(batch["source"], batch["lengths"], batch["target"]).log_softmax(-1)
    total = 0.0
    for row, label in enumerate(batch["labels"].tolist()):
        for place, word in enumerate(label):
            if word != gnmt.PAD:
                total -= 0.9 * logs[row, place, word].item() + 0.1 * logs[row, place].mean().item()
    loss, _ = GNMT.loss(module, batch, None)
    assert loss.item() == pytest.approx(total / 5, rel=1e-5)


def test_padding_changes_no_loss():
    config, module = tiny(GNMT)
    without_chance(module)
    batch = GNMT.batch(config, 4, generator())
    wider = {key: x if x.ndim == 1 else nn.functional.pad(x, (0, 3)) for key, x in batch.items()}
    assert GNMT.units(wider) == GNMT.units(batch)
    assert GNMT.padded_units(wider) == GNMT.padded_units(batch) + 2 * 4 * 3
    losses = [GNMT.loss(module, each, None)[0].item() for each in (batch, wider)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_longest_sentences_are_in_the_last_range(monkeypatch):
    monkeypatch.setattr(gnmt, "middle_pair", lambda longest, generator: (40, 43))
    batch = GNMT.batch(GNMT.sizes["full"], 512, generator())
    target = (batch["labels"] != gnmt.PAD).sum(1) + 1
    longer = torch.maximum(batch["lengths"], target)
    assert len(longer) == 512
    assert longer.min() == 40
    assert longer.max() == 50
    # Of the pairs with 40 to 50 tokens on the longer side, one in fourteen has 50.
    assert (longer == 50).double().mean().item() == pytest.approx(0.07, abs=0.04)


def test_sentences_begin_and_end():
    words, lengths = gnmt.sentences(torch.tensor([6, 3, 2]), 300, generator())
    assert lengths.tolist() == [6, 3, 2]
    assert words[:, 0].tolist() == [gnmt.BEGIN] * 3
    assert words[[0, 1, 2], lengths - 1].tolist() == [gnmt.END] * 3
    assert words[1, 3:].tolist() == [gnmt.PAD] * 3
    assert (words[0, 1:5] >= gnmt.FIRST_WORD).all()


def test_candidates_are_ranked_by_length_with_beginning_and_end(monkeypatch):
    config, module = tiny(GNMT)
    config = dataclasses.replace(config, beam=2)
    ranks = []

    def stop(step, state, sentences, beam, longest, limits, begin, end, rank):
        covered = torch.tensor([[0.5, 1.0, 2.0, 0.1], [1.0, 1.0, 1.0, 0.1]])
        # Two and three words, each with its end.
        ranks.append(rank(torch.tensor([[-3.0, -4.0]]), torch.tensor([[3.0, 4.0]]), (covered, *state[1:])))
        return torch.zeros(sentences, longest)

    monkeypatch.setattr(gnmt, "beam_search", stop)
    source, _ = gnmt.sentences(torch.tensor([3]), config.vocabulary, generator())
    # A source of three tokens and one of padding, whose coverage does not count.
    GNMT.inference(module, config)(nn.functional.pad(source, (0, 1)), torch.tensor([3]))
    first = -3 / ((5 + 4) / 6) ** 0.6 + 0.1 * torch.tensor(0.5).log().item()
    second = -4 / ((5 + 5) / 6) ** 0.6
    assert ranks[0].flatten().tolist() == pytest.approx([first, second], rel=1e-5)
