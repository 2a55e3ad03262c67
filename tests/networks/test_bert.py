import dataclasses
import itertools
import math

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from accelmark.errors import UsageError
from accelmark.networks.lamb import Lamb
from accelmark.networks.language import bert, squad
from accelmark.networks.language.words import word_pieces

BASE, LARGE = bert.BertBase(), bert.BertLarge()
PRE_TRAINING = list(bert.PREDICTIONS)
NER = "named-entity-recognition"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def full(network, task):
    config = network.configure("full", task)
    with torch.device("meta"):
        return config, network.build(config)


def tiny(task, sequence_length=None):
    config = BASE.configure("tiny", task, sequence_length)
    torch.manual_seed(0)
    return config, BASE.build(config)


def on_meta(tree):
    if isinstance(tree, torch.Tensor):
        return tree.to("meta")
    if isinstance(tree, dict):
        return {key: on_meta(value) for key, value in tree.items()}
    return tuple(on_meta(value) for value in tree)


def count(module):
    return sum(p.numel() for p in module.parameters())


def encoder_parameters(layers, width, vocabulary):
    """Embeddings and layers: the paper's numbers, with the inner width four times the width."""
    embeddings = (vocabulary + 512 + 2) * width + 2 * width
    attention = 4 * (width * width + width) + 2 * width
    feed_forward = 2 * 4 * width * width + 4 * width + width + 2 * width
    return embeddings + layers * (attention + feed_forward)


@pytest.mark.parametrize(("network", "layers", "width"), [(BASE, 12, 768), (LARGE, 24, 1024)])
def test_parameters_are_those_counted_by_hand(network, layers, width):
    fine_tuned = encoder_parameters(layers, width, 30_522)
    assert count(full(network, "squad")[1]) == fine_tuned + 2 * width + 2
    assert count(full(network, NER)[1]) == fine_tuned + 9 * width + 9
    pooler = transform = width * width + width
    # The word embedding serves as the output's matrix and counts once; the bias of the words is its own.
    heads = pooler + transform + 2 * width + 30_528 + 2 * width + 2
    for task in PRE_TRAINING:
        assert count(full(network, task)[1]) == encoder_parameters(layers, width, 30_528) + heads


def test_parameters_are_the_published_ones():
    # The paper rounds to 110M and 340M; 335M is what others print for the large one.
    assert count(full(BASE, "pre-training")[1]) == pytest.approx(110e6, rel=0.005)
    assert count(full(LARGE, "pre-training")[1]) == pytest.approx(335e6, rel=0.005)


@pytest.mark.parametrize(
    ("network", "task", "length", "gflop"),
    [
        (BASE, NER, 128, 22.3),
        (BASE, "squad", 384, 70.7),
        (LARGE, "question-answering", 128, 78.9),
        (LARGE, "squad", 384, 246.5),
        # The encoder's 335.1, and 5.2 of the scores of at most 80 words.
        (LARGE, "pre-training-phase-2", 512, 335.1 + 80 * 2 * (1024 * 30_528 + 1024**2) / 1e9),
    ],
)
def test_forward_operations_are_the_published_ones(network, task, length, gflop):
    config = network.configure("full", task, length)
    with torch.device("meta"):
        module = network.build(config)
    batch = on_meta(network.batch(config, 2, generator()))
    with FlopCounterMode(display=False) as counter:
        network.loss(module, batch, None)
    assert counter.get_total_flops() / 2 / 1e9 == pytest.approx(gflop, rel=0.003)


def test_full_size_scores_have_the_published_shapes():
    config, module = full(LARGE, "pre-training-phase-2")
    words, follows = module(*on_meta(LARGE.batch(config, 3, generator())["inputs"]))
    assert words.shape == (3, 80, 30_528)
    assert follows.shape == (3, 2)
    config, module = full(BASE, NER)
    assert module(*on_meta(BASE.batch(config, 3, generator())["inputs"])).shape == (3, 128, 9)
    config, module = full(BASE, "squad")
    start, end = module(*on_meta(BASE.batch(config, 3, generator())["inputs"]))
    assert start.shape == end.shape == (3, 384)


def test_tasks_have_the_published_lengths():
    lengths = {task: LARGE.configure("full", task).sequence_length for task in LARGE.tasks}
    assert lengths == {
        "squad": 384,
        "question-answering": 384,
        "pre-training-phase-1": 128,
        "pre-training-phase-2": 512,
        "pre-training": 128,
        "pre-training-mlperf": 512,
        NER: 128,
    }
    assert LARGE.sizes["full"].task == BASE.sizes["full"].task == "squad"


@pytest.mark.parametrize("length", [7, 513])
def test_sequences_that_cannot_be_are_refused(length):
    with pytest.raises(UsageError, match=f"8 to 512 tokens, not {length}"):
        BASE.build(BASE.configure("full", "squad", length))


@pytest.mark.parametrize("task", ["squad", "pre-training", NER])
def test_the_shortest_sequences_train(task):
    config, module = tiny(task, squad.SHORTEST)
    batch = BASE.batch(config, 16, generator())
    assert math.isfinite(BASE.loss(module, batch, None)[0].item())
    if task == "squad":
        assert (batch["start"] <= batch["end"]).all()


def naive_encoder(module, ids, segments, mask):
    """The paper's encoder, layer by layer and head by head, from the module's weights."""
    weights = {name.removeprefix("bert."): value for name, value in module.state_dict().items()}

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normalise(x, name):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def gelu(x):
        return x * (1 + torch.erf(x / math.sqrt(2))) / 2

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.token_type_embeddings.weight"][segments]
    x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = normalise(x, "embeddings.LayerNorm")
    size = module.config.hidden_size // module.config.num_attention_heads
    for i in range(module.config.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        query, key, value = (linear(x, f"{layer}.attention.self.{n}") for n in ("query", "key", "value"))
        heads = []
        for h in range(module.config.num_attention_heads):
            part = slice(h * size, (h + 1) * size)
            scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)
            scores = scores.masked_fill(mask[:, None, :] == 0, -math.inf)
            heads.append(scores.softmax(-1) @ value[..., part])
        attended = linear(torch.cat(heads, -1), f"{layer}.attention.output.dense")
        x = normalise(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = gelu(linear(x, f"{layer}.intermediate.dense"))
        x = normalise(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x


def amplified(module):
    """In double precision, with weights at which every part shows in the result."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def test_answers_equal_the_paper_s_equations():
    config, module = tiny("squad", 128)
    module = amplified(module)
    inputs = BASE.inference_inputs(config, 8, generator())
    assert (inputs[2] == 0).any()
    hidden = naive_encoder(module, *inputs)
    scores = hidden @ module.qa_outputs.weight.T + module.qa_outputs.bias
    start, end = module(*inputs)
    torch.testing.assert_close(start, scores[..., 0])
    torch.testing.assert_close(end, scores[..., 1])


def test_pre_training_scores_equal_the_paper_s_equations():
    config, module = tiny("pre-training")
    module = amplified(module)
    ids, segments, mask, positions = BASE.inference_inputs(config, 3, generator())
    hidden = naive_encoder(module, ids, segments, mask)
    words, follows = module(ids, segments, mask, positions)

    table = module.bert.embeddings.word_embeddings.weight
    head = module.cls.predictions
    for row, column in itertools.product(range(3), range(positions.shape[1])):
        x = head.transform.dense(hidden[row, positions[row, column]])
        x = head.transform.LayerNorm(functional.gelu(x))
        torch.testing.assert_close(words[row, column], table @ x + head.bias)
    pooled = module.bert.pooler.dense(hidden[:, 0]).tanh()
    torch.testing.assert_close(follows, module.cls.seq_relationship(pooled))


def test_dropout_is_the_published_tenth():
    _, module = full(BASE, "squad")
    drops = [m.p for m in module.modules() if isinstance(m, torch.nn.Dropout)]
    # Embeddings, and in each layer attention, its output and the feed-forward network's.
    assert drops == [0.1] * (1 + 3 * 12)
    assert module.config._attn_implementation == "sdpa"


def squad_lengths(batch):
    ids, segments, mask = batch["inputs"]
    separators = (ids == squad.SEP).long()
    first = separators.argmax(1)
    return first - 1, mask.sum(1) - first - 2, segments


def test_squad_batches_have_the_data_set_s_lengths():
    config = LARGE.configure("full", "squad")
    batch = LARGE.batch(config, 4000, generator())
    ids, segments, mask = batch["inputs"]
    assert mask.double().mean().item() == pytest.approx(0.46, abs=0.01)
    question, paragraph, _ = squad_lengths(batch)
    assert question.double().mean().item() == pytest.approx(12, abs=0.3)
    assert paragraph.double().mean().item() == pytest.approx(160, abs=3)
    assert 0.005 < (mask.sum(1) == 384).double().mean().item() < 0.025
    assert ((ids == squad.SEP).sum(1) == 2).all()
    assert (ids[:, 0] == squad.CLS).all()
    assert ((ids == squad.PAD) == (mask == 0)).all()
    assert torch.equal(segments.sum(1), paragraph + 1)
    assert ids.max() < config.vocabulary


def test_short_squad_sequences_are_nearly_full():
    batch = LARGE.batch(LARGE.configure("full", "squad", 128), 4000, generator())
    assert batch["inputs"][2].double().mean().item() == pytest.approx(0.96, abs=0.01)


@pytest.mark.parametrize("length", [64, 128, 384])
def test_answers_are_short_and_inside_the_paragraph(length):
    batch = LARGE.batch(LARGE.configure("full", "squad", length), 4000, generator())
    question, paragraph, _ = squad_lengths(batch)
    answer = batch["end"] - batch["start"] + 1
    assert answer.min() == 1
    assert answer.max() <= 30
    assert answer.double().mean().item() == pytest.approx(3.2, abs=0.15)
    assert (batch["start"] >= question + 2).all()
    assert (batch["end"] < question + 2 + paragraph).all()
    place = (batch["start"] - question - 2) / (paragraph - answer + 1)
    assert place.mean().item() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("task", "share", "predictions"),
    [
        ("pre-training-phase-1", 0.84, 20),
        ("pre-training", 0.84, 20),
        ("pre-training-phase-2", 0.52, 80),
        ("pre-training-mlperf", 0.52, 76),
    ],
)
def test_pre_training_batches_have_the_data_set_s_statistics(task, share, predictions):
    config = LARGE.configure("full", task)
    batch = LARGE.batch(config, 3000, generator())
    ids, segments, mask, positions = batch["inputs"]
    assert ids.shape == (3000, config.sequence_length)
    assert mask.double().mean().item() == pytest.approx(share, abs=0.015)
    assert positions.shape == batch["words"].shape == (3000, predictions)
    assert batch["follows"].double().mean().item() == pytest.approx(0.5, abs=0.03)
    assert set(batch["follows"].tolist()) == {0, 1}
    assert ((ids == squad.PAD) == (mask == 0)).all()
    assert ((ids == squad.SEP).sum(1) == 2).all()
    assert (segments <= mask).all()

    chosen = batch["words"] != bert.UNLABELLED
    tokens = mask.sum(1)
    assert torch.equal(chosen.sum(1), (0.15 * tokens).round().long().clamp(1, predictions))
    # Each position once, and none of [CLS], [SEP] or padding: their places still hold those.
    for row in range(50):
        places = positions[row][chosen[row]].tolist()
        assert len(set(places)) == len(places)
        assert 0 not in places
        assert max(places) < tokens[row] - 1
    assert (batch["words"][chosen] >= squad.FIRST_WORD).all()
    assert (positions[~chosen] == 0).all()

    shown = ids.gather(1, positions)[chosen]
    words = batch["words"][chosen]
    assert (shown == squad.MASK).double().mean().item() == pytest.approx(0.8, abs=0.01)
    assert (shown == words).double().mean().item() == pytest.approx(0.1, abs=0.01)
    assert (ids == squad.MASK).sum() == (shown == squad.MASK).sum()


def test_named_entity_batches_have_the_data_set_s_statistics():
    batch = BASE.batch(BASE.configure("full", NER), 4000, generator())
    ids, segments, mask = batch["inputs"]
    labels = batch["labels"]
    assert mask.double().mean().item() == pytest.approx(0.17, abs=0.01)
    assert segments.max() == 0
    assert ((ids == squad.SEP).sum(1) == 1).all()
    labelled = labels != bert.UNLABELLED
    assert labelled.any(1).all()
    assert ((ids[labelled] != squad.CLS) & (ids[labelled] != squad.SEP) & (ids[labelled] != squad.PAD)).all()
    # 14.5 words a sentence, 83.3 % of them in no entity.
    assert labelled.sum(1).double().mean().item() == pytest.approx(14.5, abs=0.5)
    assert (labels[labelled] == 0).double().mean().item() == pytest.approx(0.833, abs=0.01)
    assert labels.max() == 8


def test_word_pieces_are_as_frequent_as_words():
    ids = word_pieces((200_000,), squad.FIRST_WORD, 30_522, generator())
    assert ids.min() == squad.FIRST_WORD
    assert ids.max() < 30_522
    # Weights go as 1 / (rank + 2.7) and sum to 9 over the vocabulary.
    assert (ids == squad.FIRST_WORD).double().mean().item() == pytest.approx(0.03, abs=0.003)
    ratio = (ids == squad.FIRST_WORD + 10).sum() / (ids == squad.FIRST_WORD).sum()
    assert ratio.item() == pytest.approx(3.7 / 13.7, abs=0.03)


@pytest.mark.parametrize("task", BASE.tasks)
def test_units_are_sequences_and_none_is_padding(task):
    batch = BASE.batch(BASE.configure("tiny", task), 3, generator())
    assert BASE.units(batch) == BASE.padded_units(batch) == 3


def log_probability(scores, index):
    return (scores - scores.exp().sum().log())[index].item()


def test_squad_loss_equals_a_loop():
    config, module = tiny("squad")
    module.eval()
    batch = BASE.batch(config, 3, generator())
    start, end = module(*batch["inputs"])
    expected = 0.0
    for row in range(3):
        expected -= log_probability(start[row], batch["start"][row]) / 2 / 3
        expected -= log_probability(end[row], batch["end"][row]) / 2 / 3
    assert BASE.loss(module, batch, None)[0].item() == pytest.approx(expected, rel=1e-5)


def test_pre_training_loss_equals_a_loop_over_masked_positions():
    config, module = tiny("pre-training")
    module = amplified(module).float()
    batch = BASE.batch(config, 8, generator())
    words, follows = module(*batch["inputs"])
    terms = [
        -log_probability(words[row, column], batch["words"][row, column])
        for row in range(8)
        for column in range(words.shape[1])
        if batch["words"][row, column] >= 0
    ]
    assert 0 < len(terms) < words.shape[0] * words.shape[1]
    following = [-log_probability(follows[row], batch["follows"][row]) for row in range(8)]
    expected = sum(terms) / len(terms) + sum(following) / 8
    assert BASE.loss(module, batch, None)[0].item() == pytest.approx(expected, rel=1e-4)


def test_named_entity_loss_equals_a_loop_over_labelled_words():
    config, module = tiny(NER)
    module = amplified(module).float()
    batch = BASE.batch(config, 3, generator())
    scores = module(*batch["inputs"])
    terms = [
        -log_probability(scores[row, column], batch["labels"][row, column])
        for row in range(3)
        for column in range(config.sequence_length)
        if batch["labels"][row, column] >= 0
    ]
    assert BASE.loss(module, batch, None)[0].item() == pytest.approx(sum(terms) / len(terms), rel=1e-4)


def test_padding_does_not_reach_the_answer():
    config, module = tiny("squad", 128)
    module = amplified(module)
    ids, segments, mask = BASE.inference_inputs(config, 8, generator())
    assert (mask == 0).any()
    other = torch.where(mask == 1, ids, 1234)
    for a, b in zip(module(ids, segments, mask), module(other, segments, mask), strict=True):
        assert torch.equal(a[mask == 1], b[mask == 1])


class HostReads(TorchDispatchMode):
    """Collects the operations that make the host wait for the device, or decide shapes by values."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select"):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("task", ["squad", "pre-training", NER])
def test_step_never_waits_for_the_device(task):
    config, module = tiny(task)
    batch = BASE.batch(config, 2, generator())
    with HostReads() as reads:
        BASE.loss(module, batch, None)[0].backward()
    assert reads.found == []
    # The watch is awake: the library's own preparation of the mask would have waited.
    ids, segments, mask = batch["inputs"][:3]
    with HostReads() as reads:
        module.bert(ids, attention_mask=mask, token_type_ids=segments)
    assert reads.found != []


@pytest.mark.parametrize("task", ["squad", "pre-training-phase-1", "pre-training-mlperf", NER])
def test_every_task_learns(task):
    config, module = tiny(task)
    random = generator()
    batches = [BASE.batch(config, config.batch_size, random) for _ in range(2)]
    optimizer = BASE.optimizer(module, config)
    losses = []
    for batch in itertools.islice(itertools.cycle(batches), 20):
        optimizer.zero_grad()
        loss, _ = BASE.loss(module, batch, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), BASE.clip_gradient_norm)
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-4:]) < 0.85 * sum(losses[:4]), losses


@pytest.mark.parametrize(("task", "kind"), [("squad", torch.optim.AdamW), ("pre-training", Lamb)])
def test_biases_and_normalisation_do_not_decay(task, kind):
    config, module = tiny(task)
    optimizer = BASE.optimizer(module, config)
    assert isinstance(optimizer, kind)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in module.named_parameters():
        assert decay[id(parameter)] == (0.0 if name.endswith("bias") or "LayerNorm" in name else 0.01), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["named-entity-recognition", "pre-training-phase-1"])
def test_the_other_tasks_export_for_any_batch_and_length(task):
    # A second layer would only take time.
    config = dataclasses.replace(BASE.configure("tiny", task), layers=1)
    torch.manual_seed(0)
    answering = BASE.inference(amplified(BASE.build(config)).float(), config)
    inputs = tuple(BASE.inference_inputs(config, 2, generator()))
    program = torch.export.export(answering, inputs, dynamic_shapes=BASE.dynamic_shapes(config))
    for batch_size, length in ((5, 37), (1, 128)):
        other = dataclasses.replace(config, sequence_length=length)
        inputs = tuple(BASE.inference_inputs(other, batch_size, generator(1)))
        torch.testing.assert_close(program.module()(*inputs), answering(*inputs))


def test_compiled_step_equals_the_eager_one():
    config = dataclasses.replace(BASE.configure("tiny", "pre-training"), layers=1, dropout=0.0)
    torch.manual_seed(0)
    module = BASE.build(config)
    torch._dynamo.reset()
    # The backend that generates no code: what could fail to compile is the network.
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    batch = BASE.batch(config, 2, generator())
    expected, _ = BASE.loss(module, batch, None)
    loss, _ = BASE.loss(compiled, batch, None)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
