import itertools
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accelmark.errors import UnsupportedError
from accelmark.networks.language import bert, bert_sparse

SPARSE = bert_sparse.BertLargeSparse()
MATRICES = 6  # of a layer: query, key, value, attention's output, and the feed-forward network's two
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(seed=0):
    config = SPARSE.sizes["tiny"]
    torch.manual_seed(seed)
    return config, SPARSE.build(config)


def pruned(module):
    return [m for m in module.modules() if isinstance(m, bert_sparse.Pruned)]


def in_fours(weight):
    return weight.detach().reshape(-1, 4).tolist()


def test_full_size_is_bert_large_with_every_matrix_of_the_encoder_pruned():
    config = SPARSE.sizes["full"]
    with torch.device("meta"):
        module = SPARSE.build(config)
        dense = bert.BertLarge().build(bert.BertLarge.sizes["full"])
    assert {n: p.shape for n, p in module.named_parameters()} == {
        n: p.shape for n, p in dense.named_parameters()
    }
    assert len(pruned(module)) == 24 * MATRICES
    # 302 million weights, the published encoder's, of which half are zeros.
    assert sum(m.mask.numel() for m in pruned(module)) == 24 * 12 * 1024**2
    assert module.qa_outputs not in pruned(module)
    assert config.sequence_length == 128
    assert config.task == next(iter(SPARSE.tasks)) == "question-answering"


def test_forward_operations_count_the_zeros_as_published():
    config = SPARSE.sizes["full"]
    with torch.device("meta"):
        module = SPARSE.build(config)
        ids = torch.zeros(1, 128, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        module(ids, ids, ids)
    assert counter.get_total_flops() / 1e9 == pytest.approx(78.9, rel=0.003)


def test_the_mask_keeps_the_two_largest_of_every_four():
    torch.manual_seed(0)
    weight = torch.randn(5, 16)
    mask = bert_sparse.two_of_four(weight)
    for values, kept in zip(in_fours(weight), in_fours(mask), strict=True):
        order = sorted(range(4), key=lambda i: -abs(values[i]))
        assert kept == [i in order[:2] for i in range(4)]


def test_equal_weights_keep_two_as_well():
    assert bert_sparse.two_of_four(torch.ones(3, 8)).sum(1).tolist() == [4, 4, 4]


def test_zeros_stay_zero_in_training_and_the_rest_learns():
    config, module = tiny()
    before = [m.weight.detach().clone() for m in pruned(module)]
    assert len(before) == config.layers * MATRICES
    optimizer = SPARSE.optimizer(module, config)
    batches = [SPARSE.batch(config, config.batch_size, generator(i)) for i in range(2)]
    for batch in itertools.islice(itertools.cycle(batches), 4):
        optimizer.zero_grad()
        SPARSE.loss(module, batch, None)[0].backward()
        optimizer.step()
    for layer, old in zip(pruned(module), before, strict=True):
        zero = ~layer.mask
        assert all(sum(v == 0 for v in four) == 2 for four in in_fours(layer.weight))
        assert (layer.weight[zero] == 0).all()
        assert (layer.weight[layer.mask] != old[layer.mask]).double().mean() > 0.99


def test_answers_are_those_of_the_network_in_training_form():
    config, module = tiny()
    answering = SPARSE.inference(module, config)
    assert pruned(answering) == []
    assert not answering.training
    assert len(pruned(module)) == config.layers * MATRICES
    inputs = SPARSE.inference_inputs(config, 3, generator())
    for a, b in zip(answering(*inputs), module.eval()(*inputs), strict=True):
        assert torch.equal(a, b)


def test_masked_weights_do_not_count_even_where_they_are_not_zero():
    config, module = tiny()
    inputs = SPARSE.inference_inputs(config, 2, generator())
    expected = module.eval()(*inputs)[0]
    with torch.no_grad():
        for layer in pruned(module):
            layer.weight[~layer.mask] = 5.0
    assert torch.equal(module(*inputs)[0], expected)
    assert torch.equal(SPARSE.inference(module, config)(*inputs)[0], expected)


@pytest.mark.parametrize(
    ("device", "capability", "library", "dtype", "reason"),
    [
        ("xpu", (0, 0), False, torch.float16, "not for xpu"),
        ("cuda", (7, 5), True, torch.float16, "8.0 or higher, and this device has 7.5"),
        ("cuda", (8, 0), False, torch.float16, "cuSPARSELt"),
        ("cuda", (8, 0), True, torch.float32, "fp16 or bf16, not float32"),
        ("cuda", (8, 0), True, torch.float16, None),
        ("cuda", (12, 0), True, torch.bfloat16, None),
    ],
)
def test_says_why_zeros_cannot_be_skipped(device, capability, library, dtype, reason):
    answer = bert_sparse.unsupported(device, capability, library, dtype)
    assert answer is None if reason is None else reason in answer


def test_inference_is_refused_on_an_accelerator_without_the_kernels(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    weight = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float16)
    module = SimpleNamespace(qa_outputs=SimpleNamespace(weight=weight))
    with pytest.raises(UnsupportedError, match=r"this device has 7\.0"):
        SPARSE.inference(module, SPARSE.sizes["tiny"])


def test_autocast_decides_the_type_that_is_compressed():
    weight = torch.ones(4, 4)
    assert bert_sparse.compute_dtype(weight) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert bert_sparse.compute_dtype(weight) == torch.bfloat16


@gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", bert_sparse.SPARSE_DTYPES)
def test_compressed_weights_answer_like_the_dense_ones(dtype):
    config, module = tiny()
    module = module.cuda().to(dtype).eval()
    if reason := bert_sparse.reason_unsupported(module.qa_outputs.weight):
        pytest.skip(reason)
    inputs = [x.cuda() for x in SPARSE.inference_inputs(config, 3, generator())]
    with torch.inference_mode():
        answering = SPARSE.inference(module, config)
        for a, b in zip(answering(*inputs), module(*inputs), strict=True):
            torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)
