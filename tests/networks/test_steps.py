"""The training step of every network: what accumulates, repeats, is saved, and waits for nothing."""

import gc

import pytest
import safetensors.torch
import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from .sweep import NETWORKS, change, generator, leaves, samples, tiny, train, without_chance

#: Networks whose step asks the device for values on the way, and why it must.
WAITING = {
    "mask-rcnn-r50-fpn": "torchvision's proposals and regions have shapes that depend on what is found"
}

#: Networks whose loss is no mean over samples, so that two halves of a batch do not make the whole.
NO_MEAN = {
    "fastpitch": "the losses are means over letters and frames, and halves have not as many",
    "rnnt": "torchaudio's loss wants the longest utterance and text in every batch",
    "efficientnet-b4": "mixup mixes each image with the mirrored one of its batch",
    "mask-rcnn-r50-fpn": "the losses are means over the regions sampled from all images",
    "ssd300-resnet34": "the loss is divided by the matched boxes of all images",
    "ssd320-resnet50-fpn": "the loss is divided by the matched boxes of all images",
    "ssd-resnet34-1200": "the loss is divided by the matched boxes of all images",
    "transformer-big": "the loss is a mean over words, and halves have not as many",
    "unet-industrial": "the dice loss is of all pixels of the batch",
}


@pytest.fixture(params=NETWORKS)
def network(request):
    return NETWORKS[request.param]


def ungrouped(network, batch):
    """The batch without what describes it as a whole."""
    if network.name.startswith("transformer-xl"):
        data, target, _ = batch
        return data, target, ((), ())
    return batch


def rows(batch):
    """How many samples a batch holds, whatever its size counts."""
    first = next(iter(batch.values() if isinstance(batch, dict) else batch))
    return rows(first) if isinstance(first, tuple) else len(first)


def part(tree, first, last, whole):
    """Samples `first` to `last` of a batch of `whole`."""
    if isinstance(tree, torch.Tensor):
        return tree[first:last]
    if isinstance(tree, dict):
        return {key: part(value, first, last, whole) for key, value in tree.items()}
    if isinstance(tree, list) and len(tree) == whole:
        return tree[first:last]  # one entry for each sample
    return type(tree)(part(value, first, last, whole) for value in tree)


def twice(tree, whole):
    """A batch of each sample and the same once more."""
    if isinstance(tree, torch.Tensor):
        return torch.cat([tree, tree])
    if isinstance(tree, dict):
        return {key: twice(value, whole) for key, value in tree.items()}
    if isinstance(tree, list) and len(tree) == whole:
        return tree + tree
    return type(tree)(twice(value, whole) for value in tree)


def gradients(network, module, batches):
    """The mean of the gradients of batches, by name, as accumulation gives it."""
    module.zero_grad()
    for batch in batches:
        (network.loss(module, batch, None)[0] / len(batches)).backward()
    return {name: p.grad.to_dense().clone() for name, p in module.named_parameters() if p.grad is not None}


def assert_equal_gradients(ours, theirs):
    assert ours.keys() == theirs.keys()
    scale = max(each.abs().max().item() for each in theirs.values())
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=1e-5 * scale, msg=name)


def test_twice_the_same_samples_in_one_batch_have_the_gradient_of_once(network):
    config, module = tiny(network)
    without_chance(module)
    batch = ungrouped(network, network.batch(config, samples(network, 3), generator()))
    once = gradients(network, module, [batch])
    assert_equal_gradients(gradients(network, module, [twice(batch, rows(batch))]), once)
    assert_equal_gradients(gradients(network, module, [batch, batch]), once)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in NO_MEAN])
def test_gradients_accumulated_over_two_halves_are_those_of_the_whole_batch(name):
    network = NETWORKS[name]
    config, module = tiny(network)
    without_chance(module)
    batch = ungrouped(network, network.batch(config, 2 * samples(network, 3), generator()))
    whole = rows(batch)
    halves = [part(batch, 0, whole // 2, whole), part(batch, whole // 2, whole, whole)]
    assert_equal_gradients(gradients(network, module, halves), gradients(network, module, [batch]))


def test_the_same_seed_gives_the_same_losses_and_weights(network):
    def run(seed):
        config, module = tiny(network, seed)
        random = generator(seed)
        batches = [network.batch(config, samples(network, 2), random) for _ in range(2)]
        losses, _ = train(network, module, network.optimizer(module, config), batches)
        return losses, module.state_dict()

    (losses, weights), (again, weights_again), (others, _) = run(3), run(3), run(4)
    assert torch.equal(torch.stack(losses), torch.stack(again))
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)
    assert not torch.equal(torch.stack(losses), torch.stack(others))


def test_saved_and_loaded_it_answers_the_same(network, tmp_path):
    config, module = tiny(network)
    # A step, so that what is saved is not what any building gives.
    batch = network.batch(config, samples(network, 2), generator())
    train(network, module, network.optimizer(module, config), [batch])
    safetensors.torch.save_model(module, str(tmp_path / "module.safetensors"))
    _, other = tiny(network, seed=1)
    missing, unexpected = safetensors.torch.load_model(other, str(tmp_path / "module.safetensors"))
    assert not missing
    assert not unexpected

    inputs = network.inference_inputs(config, 2, generator())
    with torch.inference_mode():
        wanted = leaves(network.inference(module, config)(*inputs))
        answer = leaves(network.inference(other, config)(*inputs))
    assert all(torch.equal(a, b) for a, b in zip(answer, wanted, strict=True))


@fake_impls.register_op_impl(torch.ops.aten._ctc_loss.default)
def ctc_loss_without_values(mode, function, scores, texts, frames, characters, *_, **__):
    """CTC's losses in shapes; torch thinks that these depend on values, also with lengths on the host."""
    steps, rows, _ = scores.shape
    return scores.new_empty(rows), scores.new_empty(rows, steps, 2 * max(characters) + 1)


def fake_step(network):
    """A training step on tensors without values: whatever needs a value to go on raises."""
    config, module = tiny(network)
    batch = network.batch(config, samples(network, 2), generator())
    with FakeTensorMode() as mode:
        for each in module.modules():
            for held in (each._parameters, each._buffers):
                held.update({name: mode.from_tensor(t) for name, t in held.items() if t is not None})
        optimizer = network.optimizer(module, config)
        # The second step has the first one's state.
        state = None
        for _ in range(2):
            _, state = train(network, module, optimizer, [change(batch, mode.from_tensor)], state)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in WAITING])
def test_no_step_waits_for_a_value_from_the_device(name):
    fake_step(NETWORKS[name])


@pytest.mark.parametrize("name", WAITING)
def test_the_step_of_these_waits(name):
    with pytest.raises(DataDependentOutputException):
        fake_step(NETWORKS[name])


def live_bytes():
    gc.collect()
    # Not the tensors without values that an export may have left.
    found = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
    tensors = [part for each in found for part in ([each._values()] if each.is_sparse else [each])]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def test_no_memory_is_kept_from_step_to_step(network):
    config, module = tiny(network)
    batch = network.batch(config, samples(network, 2), generator())
    optimizer = network.optimizer(module, config)
    # Two steps fill the optimiser's state and a memory.
    _, state = train(network, module, optimizer, [batch, batch, batch])
    before = live_bytes()
    losses, state = train(network, module, optimizer, [batch] * 3, state)
    del losses
    assert live_bytes() <= before
