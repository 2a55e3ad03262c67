"""Every network's inference, exported by torch and to ONNX, answers as before, also for other sizes."""

import io

import onnxruntime
import pytest
import torch

from .sweep import NETWORKS, generator, leaves, tiny, train

#: Detectors are exported without optimising their graphs, which takes as long again for thousands of nodes.
UNOPTIMISED = "detection", "instance segmentation"


def cut(tree, shapes):
    """Inputs with about two thirds of every dimension that may be of any size."""
    if isinstance(tree, torch.Tensor):
        for axis, dim in (shapes or {}).items():
            size = tree.shape[axis]
            tree = tree.narrow(axis, 0, max(size * 2 // 3, dim.min, 1))
        return tree.contiguous()
    return type(tree)(cut(value, shape) for value, shape in zip(tree, shapes, strict=True))


def assert_same(answers, expected):
    """Equal but for rounding: a hundredth of how much the numbers differ among themselves."""
    assert len(answers) == len(expected)
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer.shape == wanted.shape
        if wanted.is_floating_point():
            real = wanted[wanted.abs() < 1e6]  # without what stands for minus infinity
            assert real.std() > 0
            torch.testing.assert_close(answer, wanted, rtol=1e-5, atol=0.01 * real.std().item())
        else:
            assert torch.equal(answer, wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NETWORKS)
def test_exported_it_answers_the_same_for_inputs_of_other_sizes(name):
    network = NETWORKS[name]
    config, module = tiny(network)
    # Detections of an untrained network hardly differ, and rounding decides which comes first.
    train(network, module, network.optimizer(module, config), [network.batch(config, 4, generator())] * 8)
    inference = network.inference(module, config)
    inputs = tuple(network.inference_inputs(config, 3, generator()))
    shapes = network.dynamic_shapes(config)
    others = cut(inputs, shapes)
    assert any(a.shape[0] != b.shape[0] for a, b in zip(leaves(inputs), leaves(others), strict=True))
    with torch.no_grad():
        expected = leaves(inference(*others))
        program = torch.export.export(inference, inputs, dynamic_shapes=shapes)
        assert_same(leaves(program.module()(*others)), expected)
        file = io.BytesIO()
        optimize = not network.task.endswith(UNOPTIMISED)
        torch.onnx.export(program, dynamo=True, verbose=False, optimize=optimize).save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    feeds = {i.name: x.numpy() for i, x in zip(session.get_inputs(), leaves(others), strict=True)}
    assert_same([torch.from_numpy(each) for each in session.run(None, feeds)], expected)
