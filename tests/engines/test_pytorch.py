"""PyTorch behind the device interface."""

from __future__ import annotations

import time

import pytest
import torch

from accelmark.engines.pytorch import (
    TorchDevice,
    autocast,
    available_kinds,
    is_out_of_memory,
    set_precision,
    start_momentum,
)

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU; see make gpu-check")


def test_a_cpu_is_always_there_and_last() -> None:
    assert available_kinds()[-1] == "cpu"


def test_a_cpu_has_no_queue_and_counts_no_memory() -> None:
    device = TorchDevice("cpu")
    device.synchronize()
    device.reset_peak_memory()
    assert device.mark() is None
    assert device.peak_memory_gib() is None


@pytest.mark.parametrize(("precision", "wanted"), [("fp32", "ieee"), ("tf32", "tf32"), ("fp16", "ieee")])
def test_tf32_is_on_only_where_it_was_asked_for(precision: str, wanted: str) -> None:
    set_precision(precision)
    assert torch.backends.cuda.matmul.fp32_precision == wanted
    assert torch.backends.cudnn.conv.fp32_precision == wanted
    assert torch.backends.cudnn.rnn.fp32_precision == wanted
    # Exporting asks PyTorch's older switches, and fails if they say something else.
    convolution = torch.nn.Conv2d(1, 1, 1)
    assert torch.export.export(convolution, (torch.zeros(1, 1, 2, 2),)).graph is not None


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("tf32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)],
)
def test_what_autocast_computes_in(precision: str, dtype: torch.dtype) -> None:
    with autocast(precision, "cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_memory_errors_are_told_from_defects() -> None:
    with pytest.raises(RuntimeError) as memory:
        torch.empty(2**50)
    assert is_out_of_memory(memory.value)
    with pytest.raises(RuntimeError) as shape:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert not is_out_of_memory(shape.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ValueError("out of memory"))


@gpu
@pytest.mark.gpu
def test_events_agree_with_the_wall_clock() -> None:
    device = TorchDevice(available_kinds()[0])
    a = torch.randn(4096, 4096, device=device.torch_device)
    a @ a
    device.synchronize()
    start, first = time.perf_counter(), device.mark()
    for _ in range(20):
        a @ a
    last = device.mark()
    device.synchronize()
    wall_ms = (time.perf_counter() - start) * 1000
    assert first is not None
    assert last is not None
    assert device.milliseconds(first, last) == pytest.approx(wall_ms, rel=0.2)


@gpu
@pytest.mark.gpu
def test_peak_memory_is_what_was_allocated() -> None:
    device = TorchDevice(available_kinds()[0])
    device.reset_peak_memory()
    before = device.peak_memory_gib() or 0.0
    block = torch.empty(2**30, dtype=torch.uint8, device=device.torch_device)
    del block
    assert (device.peak_memory_gib() or 0.0) - before == pytest.approx(1.0, rel=0.01)


@gpu
@pytest.mark.gpu
def test_too_much_memory_is_told_as_such() -> None:
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    assert is_out_of_memory(error.value)


def test_a_first_step_that_is_left_out_does_no_harm_to_momentum() -> None:
    weights = [torch.nn.Parameter(torch.ones(1000)) for _ in range(2)]
    optimizers = [
        torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=fused)
        for weight, fused in zip(weights, (True, False), strict=True)
    ]
    start_momentum(optimizers[0])
    for gradient in (float("inf"), 1.0, 2.0):
        for weight, optimizer in zip(weights, optimizers, strict=True):
            weight.grad = torch.full((1000,), gradient)
            scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
            scaler.scale(torch.ones(()))
            scaler.step(optimizer)
    torch.testing.assert_close(*weights)
    assert weights[0][0].item() == pytest.approx(1 - 0.1 * 1 - 0.1 * 2.9)
