import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accelmark.errors import UsageError
from accelmark.networks.language import bert, electra, squad

ELECTRA = electra.ElectraBase()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(sequence_length=None):
    config = ELECTRA.configure("tiny", "squad", sequence_length)
    torch.manual_seed(0)
    module = ELECTRA.build(config).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return config, module.eval()


def full():
    config = ELECTRA.sizes["full"]
    with torch.device("meta"):
        return config, ELECTRA.build(config)


def hidden(module, ids, segments, mask):
    return module.electra(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state


def end_score(module, state, beginning):
    """Of one token given the one at which the answer begins."""
    x = (module.end.dense.weight @ torch.cat([state, beginning]) + module.end.dense.bias).tanh()
    x = (x - x.mean()) / (x.var(unbiased=False) + 1e-12).sqrt()
    x = x * module.end.norm.weight + module.end.norm.bias
    return (module.end.score.weight @ x + module.end.score.bias).item()


def log_softmax(scores):
    total = math.log(sum(math.exp(s) for s in scores))
    return [s - total for s in scores]


def test_parameters_are_those_counted_by_hand_and_the_published_ones():
    config, module = full()
    count = sum(p.numel() for p in module.parameters())
    encoder = bert.BASE.parameters - (2 * 768 + 2)  # BERT-Base's without its head for SQuAD
    end = (2 * 768 * 768 + 768) + 2 * 768 + (768 + 1)
    assert count == encoder + (768 + 1) + end == config.parameters
    assert count == pytest.approx(110e6, rel=0.001)


def test_forward_operations_are_bert_base_s_and_the_joint_head():
    config, module = full()
    inputs = [x.to("meta") for x in ELECTRA.inference_inputs(config, 1, generator())]
    head = 2 * 384 * (2 * 768 * 768 + 2 * 768)
    for start, beginnings in ((torch.zeros(1, dtype=torch.long, device="meta"), 1), (None, config.beam)):
        with FlopCounterMode(display=False) as counter:
            module(*inputs, start)
        expected = 70.7e9 + head * beginnings
        assert counter.get_total_flops() == pytest.approx(expected, rel=0.003)


def test_full_size_scores_have_the_recipe_s_shapes():
    config, module = full()
    inputs = [x.to("meta") for x in ELECTRA.inference_inputs(config, 3, generator())]
    assert [x.shape for x in module(*inputs)] == [(3, 4), (3, 4), (3, 16), (3, 16)]
    start = torch.zeros(3, dtype=torch.long, device="meta")
    assert [x.shape for x in module(*inputs, start)] == [(3, 384), (3, 384)]


def test_all_but_the_paragraph_and_cls_is_barred():
    config = ELECTRA.sizes["full"]
    batch = ELECTRA.batch(config, 200, generator())
    ids, segments, mask, barred = batch["inputs"]
    assert mask.double().mean().item() == pytest.approx(0.46, abs=0.04)
    for row in range(200):
        first, last = (ids[row] == squad.SEP).nonzero().flatten().tolist()
        allowed = (~barred[row]).nonzero().flatten().tolist()
        assert allowed == [0, *range(first + 1, last)]
        assert first < batch["start"][row] <= batch["end"][row] < last
        assert mask[row].sum() == last + 1
        assert segments[row].sum() == last - first


def test_units_are_sequences_and_none_is_padding():
    batch = ELECTRA.batch(ELECTRA.sizes["tiny"], 3, generator())
    assert ELECTRA.units(batch) == ELECTRA.padded_units(batch) == 3


def test_loss_equals_a_loop_with_the_true_beginning():
    config, module = tiny(32)
    batch = ELECTRA.batch(config, 2, generator())
    ids, segments, mask, barred = batch["inputs"]
    states = hidden(module, ids, segments, mask)
    expected = 0.0
    for row in range(2):
        allowed = (~barred[row]).nonzero().flatten().tolist()
        start, end = batch["start"][row].item(), batch["end"][row].item()
        starts = [module.start(states[row, i]).item() for i in allowed]
        ends = [end_score(module, states[row, i], states[row, start]) for i in allowed]
        expected -= log_softmax(starts)[allowed.index(start)] / 4
        expected -= log_softmax(ends)[allowed.index(end)] / 4
    assert ELECTRA.loss(module, batch, None)[0].item() == pytest.approx(expected, rel=1e-5)


def test_answers_equal_a_naive_search():
    config, module = tiny(32)
    ids, segments, mask, barred = ELECTRA.inference_inputs(config, 2, generator())
    states = hidden(module, ids, segments, mask)
    start_best, start_at, end_best, end_at = ELECTRA.inference(module, config)(ids, segments, mask, barred)
    for row in range(2):
        allowed = (~barred[row]).nonzero().flatten().tolist()
        scores = log_softmax([module.start(states[row, i]).item() for i in allowed])
        ranked = sorted(zip(scores, allowed, strict=True), reverse=True)[: config.beam]
        assert start_at[row].tolist() == [place for _, place in ranked]
        assert start_best[row].tolist() == pytest.approx([score for score, _ in ranked], rel=1e-4)
        found, places = [], []
        for _, start in ranked:
            ends = log_softmax([end_score(module, states[row, i], states[row, start]) for i in allowed])
            best = sorted(zip(ends, allowed, strict=True), reverse=True)[: config.beam]
            found += [score for score, _ in best]
            places += [place for _, place in best]
        assert end_at[row].tolist() == places
        assert end_best[row].tolist() == pytest.approx(found, rel=1e-4, abs=1e-6)


def test_layers_below_learn_slower_and_vectors_do_not_decay():
    config, module = full()
    levels = {name: electra.depth(name, config.layers) for name, _ in module.named_parameters()}
    assert levels["electra.embeddings.word_embeddings.weight"] == 0
    assert levels["electra.embeddings.LayerNorm.bias"] == 0
    assert levels["electra.encoder.layer.0.output.dense.weight"] == 1
    assert levels["electra.encoder.layer.11.output.dense.weight"] == 12
    assert levels["start.weight"] == levels["end.dense.weight"] == 14
    assert set(levels.values()) == {0, *range(1, 13), 14}

    config, module = tiny()
    names = {id(p): name for name, p in module.named_parameters()}
    optimizer = ELECTRA.optimizer(module, config)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            vector = name.endswith("bias") or "orm." in name
            assert group["weight_decay"] == (0.0 if vector else 0.01), name
            expected = config.learning_rate * 0.8 ** (config.layers + 2 - electra.depth(name, config.layers))
            assert group["lr"] == pytest.approx(expected), name


def test_sequences_longer_than_the_positions_are_refused():
    with pytest.raises(UsageError, match="8 to 512 tokens, not 600"):
        ELECTRA.build(ELECTRA.configure("full", "squad", 600))
