"""The ceilings' units are counted by others as well, and a result that is wrong is caught."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from accelmark.errors import AccelmarkError, UnsupportedError, UsageError  # noqa: E402
from accelmark.scenarios import ceiling  # noqa: E402
from accelmark.scenarios.ceiling import (  # noqa: E402
    Copy,
    all_reduce_step,
    check_product,
    choose_matrix_size,
    copy_bytes,
    host_link_step,
    matrix_product_step,
    memory_copy_step,
)

MIB = 2**20
CPU_PRECISIONS = ("fp32", "bf16", "fp16")


@pytest.fixture(autouse=True)
def _precision_settings() -> Iterator[None]:
    backends = (
        *(torch.backends, torch.backends.cuda.matmul, torch.backends.cudnn),
        *(torch.backends.cudnn.conv, torch.backends.cudnn.rnn),
    )
    before = [backend.fp32_precision for backend in backends]
    benchmark = torch.backends.cudnn.benchmark
    yield
    for backend, precision in zip(backends, before, strict=True):
        backend.fp32_precision = precision
    torch.backends.cudnn.benchmark = benchmark


# --- matrix products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", CPU_PRECISIONS)
def test_flops_are_those_that_pytorch_counts(precision: str) -> None:
    step = matrix_product_step("cpu", precision, 64)
    with FlopCounterMode(display=False) as counter:
        units = step()
    assert units == counter.get_total_flops() == 2 * 64**3


@pytest.mark.parametrize("precision", CPU_PRECISIONS)
@pytest.mark.parametrize("n", [16, 100, 512])
def test_a_right_product_passes(precision: str, n: int) -> None:
    step = matrix_product_step("cpu", precision, n)
    step()
    assert 0 <= step.check() < ceiling.PRODUCT_ERROR[precision]
    assert step.c.dtype is {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


@pytest.mark.parametrize("precision", CPU_PRECISIONS)
def test_a_product_that_was_never_computed_is_caught(precision: str) -> None:
    with pytest.raises(AccelmarkError, match="is wrong: its relative error is 1, above"):
        matrix_product_step("cpu", precision, 128).check()


def half(c):
    return c / 2


def without_upper_half(c):
    c[: len(c) // 2] = 0
    return c


def not_finite(c):
    return c * float("nan")


@pytest.mark.parametrize("precision", CPU_PRECISIONS)
@pytest.mark.parametrize("spoil", [half, torch.Tensor.t, without_upper_half, not_finite, torch.relu])
def test_a_wrong_product_is_caught(precision: str, spoil) -> None:
    step = matrix_product_step("cpu", precision, 128)
    step()
    with pytest.raises(AccelmarkError, match="is wrong"):
        check_product(step.a, step.b, spoil(step.c.clone()), precision)


def round_to_tf32(x):
    """The 11 significant bits that TF32 keeps of fp32's 24."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_tf32_is_told_from_fp32() -> None:
    step = matrix_product_step("cpu", "fp32", 256)
    step()
    tf32 = round_to_tf32(step.a) @ round_to_tf32(step.b)
    assert check_product(step.a, step.b, tf32, "tf32") > ceiling.PRODUCT_ERROR["fp32"]
    with pytest.raises(AccelmarkError, match="fp32 matrix product is wrong"):
        check_product(step.a, step.b, tf32, "fp32")
    with pytest.raises(AccelmarkError, match="ran in fp32, not in TF32"):
        check_product(step.a, step.b, step.c, "tf32")


def test_factors_are_random() -> None:
    step = matrix_product_step("cpu", "fp32", 128)
    assert step.a.std() == pytest.approx(1, abs=0.05)
    assert not torch.equal(step.a, step.b)


def test_what_cannot_be_measured_is_a_sentence() -> None:
    with pytest.raises(UnsupportedError, match="TF32 exists on NVIDIA GPUs only"):
        matrix_product_step("cpu", "tf32", 64)
    with pytest.raises(UsageError, match="unknown precision 'fp8'"):
        matrix_product_step("cpu", "fp8", 64)


class Machine:
    """A device, a clock and products in one: a size's rate decides how long its product takes."""

    kind = "fake"

    def __init__(self, rates: dict[int, float], memory: int = 2**30) -> None:
        self.rates, self.memory = rates, memory
        self.now = self.queued = 0.0
        self.tried: list[int] = []

    def clock(self) -> float:
        return self.now

    def synchronize(self) -> None:
        self.now += self.queued
        self.queued = 0.0

    def make(self, device: str, precision: str, n: int):
        if n > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.tried.append(n)

        def step() -> float:
            self.queued += 2 * n**3 / self.rates[n]
            return 2.0 * n**3

        return step

    def choose(self, **options: float) -> int:
        return choose_matrix_size(
            self, self.clock, "cpu", "fp32", smallest=512, make=self.make, **{"time_limit_s": 1e9, **options}
        )


def test_size_is_doubled_until_the_rate_stops_rising() -> None:
    machine = Machine({512: 1e12, 1024: 5e12, 2048: 9e12, 4096: 9.1e12, 8192: 9e12, 16384: 20e12})
    assert machine.choose() == 4096
    assert machine.tried == [512, 1024, 2048, 4096, 8192]


def test_one_size_that_fits_badly_does_not_end_the_search() -> None:
    machine = Machine({512: 5e12, 1024: 4e12, 2048: 9e12, 4096: 8e12, 8192: 8e12})
    assert machine.choose() == 2048


def test_search_ends_before_the_time_does() -> None:
    machine = Machine(dict.fromkeys([512 * 2**i for i in range(7)], 1e9))
    machine.choose(time_limit_s=10)
    assert machine.now < 10
    rising = Machine({512: 1e9, 1024: 2e9, 2048: 4e9, 4096: 8e9, 8192: 16e9, 16384: 32e9})
    assert rising.choose(time_limit_s=30) == rising.tried[-1] < 8192
    assert rising.now < 30


def test_search_ends_where_memory_does() -> None:
    machine = Machine({512: 1e12, 1024: 2e12, 2048: 4e12}, memory=1024)
    assert machine.choose() == 1024
    with pytest.raises(torch.OutOfMemoryError):
        Machine({}, memory=256).choose()


def test_an_error_that_is_not_about_memory_is_not_hidden() -> None:
    machine = Machine({512: 1e12, 1024: 2e12})

    def broken(device: str, precision: str, n: int):
        if n > 512:
            raise RuntimeError("device-side assert")
        return machine.make(device, precision, n)

    with pytest.raises(RuntimeError, match="device-side assert"):
        choose_matrix_size(machine, machine.clock, "cpu", "fp32", time_limit_s=1e9, make=broken)


# --- copies ------------------------------------------------------------------------------------------------


def test_a_copy_counts_what_is_read_and_what_is_written() -> None:
    step = memory_copy_step("cpu", 4 * MIB)
    assert step.source.numel() * step.source.element_size() == 4 * MIB
    assert step() == 2 * 4 * MIB
    step.check()


def test_a_copy_that_did_not_happen_is_caught() -> None:
    with pytest.raises(AccelmarkError, match="copy is wrong"):
        memory_copy_step("cpu", MIB).check()
    source = torch.rand(1000)
    target = source.clone()
    target[-1] = 2
    with pytest.raises(AccelmarkError, match="copy is wrong"):
        Copy(source, target, 4000).check()


def test_no_cache_holds_the_buffer() -> None:
    assert copy_bytes(None) == copy_bytes(32 * MIB) == 256 * MIB
    assert copy_bytes(768 * MIB) == 4 * 768 * MIB


def test_the_default_buffer_is_four_times_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "last_level_cache_bytes", lambda: 80 * MIB)
    assert memory_copy_step("cpu")() == 2 * 4 * 80 * MIB


def test_host_link_needs_a_device_of_its_own_memory() -> None:
    with pytest.raises(UnsupportedError, match="host link: not applicable"):
        host_link_step("cpu", "host_to_device")
    with pytest.raises(UsageError, match="unknown direction 'host_to_host'"):
        host_link_step("cpu", "host_to_host")


# --- all-reduce --------------------------------------------------------------------------------------------

RANK = """
import sys, torch.distributed as dist
from accelmark.errors import UnsupportedError
from accelmark.scenarios.ceiling import all_reduce_step
rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
try:
    step = all_reduce_step("cpu", buffer_bytes=2**20)
    units = [step() for _ in range(200)]  # more sums than fp32 can hold
    print(units[0], len(set(units)))
except UnsupportedError as error:
    print(error)
dist.destroy_process_group()
"""


def on_ranks(ranks: int, store: Path) -> list[str]:
    command = [sys.executable, "-c", RANK]
    processes = [
        subprocess.Popen([*command, str(rank), str(ranks), str(store)], stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks
    return outputs


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_reduce_counts_bus_bytes_once_over_all_ranks(ranks: int, tmp_path: Path) -> None:
    outputs = [line.split() for line in on_ranks(ranks, tmp_path / "store")]
    assert {distinct for _, distinct in outputs} == {"1"}
    # The loop adds the ranks' units up.
    assert sum(float(units) for units, _ in outputs) == pytest.approx(2 * (ranks - 1) / ranks * MIB)


def test_all_reduce_of_one_rank_is_not_applicable(tmp_path: Path) -> None:
    assert on_ranks(1, tmp_path / "store") == ["all-reduce: not applicable to one rank"]


def test_all_reduce_that_does_not_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "get_rank", lambda group: 0)
    monkeypatch.setattr(dist, "all_reduce", lambda buffer, group: None)
    with pytest.raises(AccelmarkError, match="all-reduce is wrong"):
        all_reduce_step("cpu", buffer_bytes=MIB)


# --- on a GPU ----------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_steps_on_a_gpu() -> None:
    precisions = ["fp32", "fp16"]
    if torch.cuda.get_device_capability() >= (8, 0):
        precisions += ["tf32", "bf16"]
    for precision in precisions:
        step = matrix_product_step("cuda", precision, 1024)
        step()
        step.check()
    for copy in (
        memory_copy_step("cuda", MIB),
        host_link_step("cuda", "host_to_device", MIB),
        host_link_step("cuda", "device_to_host", MIB),
    ):
        copy()
        torch.cuda.synchronize()
        copy.check()
