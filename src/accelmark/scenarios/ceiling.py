"""What this machine can do at most, measured: matrix products, memory copies, the host link, all-reduce.

Each ceiling is a step like any other: calling it submits work and returns the units that it processes, so the
measuring loop times it with the statistics of every other result. Only a worker calls these functions; torch
is imported in them, so that a parent may read this file's names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from accelmark import conclude
from accelmark.errors import DivergedError, UnsupportedError, unknown
from accelmark.job import PRECISIONS, Job, Settings
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.device import Device
from accelmark.measure.loop import Group, measure
from accelmark.measure.machine import last_level_cache_bytes
from accelmark.record import Metrics, Samples
from accelmark.scenarios.outcome import OnWindow, Outcome

if TYPE_CHECKING:
    import torch

    from accelmark.engines.pytorch import TorchDevice

Step = Callable[[], float]
Direction = Literal["host_to_device", "device_to_host"]
DIRECTIONS: tuple[Direction, ...] = ("host_to_device", "device_to_host")

MIB = 2**20
#: A copy must not fit in a cache: at least this much, and four times the last-level caches together.
LEAST_COPY_BYTES, COPY_PER_CACHE = 256 * MIB, 4
ALL_REDUCE_BYTES = 64 * MIB

#: Largest error of a product, relative to its size (Frobenius norms), against float64. fp32 accumulates
#: rounding of 2^-24 over the row; TF32 rounds each factor to 11 bits, which gives about 4e-4, so the bound of
#: fp32 also tells a product that used TF32 unasked. bf16 rounds the result to 8 bits (1e-3 in the mean).
#: fp16 rounds it to 11 bits, but some CPUs accumulate in fp16 as well. A wrong product is off by 0.1 or more.
PRODUCT_ERROR = {"fp32": 5e-5, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-2}
#: Rows and columns whose crossings are compared.
CHECKED_LINES = 64

#: A larger matrix has to be so much faster to count as an improvement.
RISING = 1.03
#: Time for which products of one size are timed while looking for the best size.
TRIAL_S = 0.05


class MatrixProduct:
    """A square product of random numbers: zeros would draw less power and let the clock rise.

    The precision of fp32 products is a setting of the whole process, so only the product that was made last
    may run; `check_product` tells if another was.
    """

    def __init__(self, torch_device: torch.device | str, precision: str, n: int) -> None:
        import torch

        from accelmark.engines.pytorch import set_precision

        device = torch.device(torch_device)
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        if precision == "tf32" and device.type != "cuda":
            raise UnsupportedError(f"TF32 exists on NVIDIA GPUs only, not on {device.type}: use fp32")
        set_precision(precision)
        dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
        generator = torch.Generator(device).manual_seed(0)
        self.a: Any = torch.randn(n, n, device=device, generator=generator).to(dtype)
        self.b: Any = torch.randn(n, n, device=device, generator=generator).to(dtype)
        self.c: Any = torch.zeros(n, n, device=device, dtype=dtype)
        self.precision = precision
        self.size = n
        self.flops = 2.0 * n**3  # each of the n^2 results takes n multiplications and n additions
        self._multiply = torch.mm

    def __call__(self) -> float:
        """Submit one product; its floating-point operations."""
        self._multiply(self.a, self.b, out=self.c)
        return self.flops

    def check(self) -> float:
        """The relative error of the last product; raises if it is not one in this precision."""
        return check_product(self.a, self.b, self.c, self.precision)


def matrix_product_step(torch_device: torch.device | str, precision: str, n: int) -> MatrixProduct:
    """A step that multiplies two n × n matrices; its units are floating-point operations."""
    return MatrixProduct(torch_device, precision, n)


def check_product(a: Any, b: Any, c: Any, precision: str) -> float:
    """The relative error of `c` as the product of `a` and `b`, at random rows and columns, against float64.

    Raises if it is above what the precision allows, or, for TF32, so small that TF32 was not used. Waits
    for the device.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(a.shape[0], generator=generator)[:CHECKED_LINES].to(a.device)
    columns = torch.randperm(b.shape[1], generator=generator)[:CHECKED_LINES].to(a.device)
    expected = a[rows].cpu().double() @ b[:, columns].cpu().double()
    error = float((c[rows][:, columns].cpu().double() - expected).norm() / expected.norm())
    allowed = PRODUCT_ERROR[precision]
    if not error <= allowed:  # NaN is not
        raise DivergedError(
            f"the {precision} matrix product is wrong: its relative error is {error:.2g}, above {allowed:g}"
        )
    if precision == "tf32" and error <= PRODUCT_ERROR["fp32"]:
        raise DivergedError(
            f"the matrix product ran in fp32, not in TF32: its relative error is only {error:.2g}"
        )
    return error


def _rate(step: Step, device: Device, clock: Clock) -> tuple[float, float]:
    """Units per second, and seconds per step, after one step of warm-up."""
    step()
    repeats = 1
    while True:
        device.synchronize()
        start = clock()
        units = sum(step() for _ in range(repeats))
        device.synchronize()
        seconds = clock() - start
        if seconds >= TRIAL_S or repeats >= 4096:
            return units / seconds, seconds / repeats
        repeats *= 2


def choose_matrix_size(
    device: Device,
    clock: Clock,
    torch_device: torch.device | str,
    precision: str,
    *,
    time_limit_s: float = 10.0,
    smallest: int = 512,
    largest: int = 32768,
    make: Callable[[torch.device | str, str, int], Step] = matrix_product_step,
) -> int:
    """The size with the highest rate: doubled until the rate has stopped rising.

    It has stopped when two sizes in a row bring nothing, since one may just fit the device badly. The
    next size is not tried when it would not end within `time_limit_s` from the start, or when memory ends.
    """
    from accelmark.engines.pytorch import is_out_of_memory

    deadline = clock() + time_limit_s
    rates: dict[int, float] = {}
    n, best, without_gain = smallest, 0.0, 0
    while n <= largest and without_gain < 2:
        try:
            rate, step_s = _rate(make(torch_device, precision, n), device, clock)
        except (RuntimeError, MemoryError) as error:
            if not rates or not is_out_of_memory(error):
                raise
            break
        rates[n] = rate
        without_gain = 0 if rate > RISING * best else without_gain + 1
        best = max(best, rate)
        n *= 2
        # Eight times the work a product, and two of them: one to warm up.
        if clock() + 16 * step_s > deadline:
            break
    return max(rates, key=lambda size: rates[size])


class Copy:
    """A copy from one buffer to another; `bytes_per_step` counts what the ceiling is named after."""

    def __init__(self, source: Any, target: Any, bytes_per_step: int, non_blocking: bool = False) -> None:
        self.source = source
        self.target = target
        self._bytes = float(bytes_per_step)
        self._non_blocking = non_blocking

    def __call__(self) -> float:
        """Submit one copy; its bytes."""
        self.target.copy_(self.source, non_blocking=self._non_blocking)
        return self._bytes

    def check(self) -> None:
        """Raise unless everything has arrived. Waits for the device."""
        if not bool((self.target.to(self.source.device) == self.source).all()):
            raise DivergedError("the copy is wrong: its target differs from its source")


def copy_bytes(cache_bytes: int | None) -> int:
    """Size of a buffer that no cache holds."""
    return max(LEAST_COPY_BYTES, COPY_PER_CACHE * (cache_bytes or 0))


def memory_copy_step(torch_device: torch.device | str, buffer_bytes: int | None = None) -> Copy:
    """A step that copies within the device's memory; its units are bytes read and bytes written.

    On a CPU a store may first read the line that it overwrites; those reads are not counted, so that the
    rate is what a copy gets, not what the memory chips do.
    """
    import torch

    device = torch.device(torch_device)
    if buffer_bytes is None:
        cache = last_level_cache_bytes() if device.type == "cpu" else None
        if device.type == "cuda":
            cache = int(torch.cuda.get_device_properties(device).L2_cache_size)
        buffer_bytes = copy_bytes(cache)
    # Random numbers: memory that was never written may be one page of zeros, mapped many times.
    source = torch.rand(buffer_bytes // 4, device=device)
    return Copy(source, torch.zeros_like(source), 2 * source.numel() * source.element_size())


def host_link_step(
    torch_device: torch.device | str, direction: Direction, buffer_bytes: int = LEAST_COPY_BYTES
) -> Copy:
    """A step that copies between pinned host memory and the device; its units are bytes, counted once."""
    import torch

    device = torch.device(torch_device)
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    if device.type in ("cpu", "mps"):
        raise UnsupportedError(f"host link: not applicable, {device.type} computes in the host's own memory")
    host = torch.rand(buffer_bytes // 4).pin_memory()
    if direction == "host_to_device":
        source, target = host, torch.zeros_like(host, device=device)
    else:
        source, target = host.to(device), torch.zeros_like(host).pin_memory()
    return Copy(source, target, source.numel() * source.element_size(), non_blocking=True)


def all_reduce_step(
    torch_device: torch.device | str, group: Any = None, buffer_bytes: int = ALL_REDUCE_BYTES
) -> Step:
    """A step that sums a buffer over the ranks of an initialised process group.

    Bus bandwidth is 2 (N - 1) / N × bytes / time: what each link carries at least, whatever the number of
    ranks. The loop sums units over ranks, so each rank returns its N-th part of that.
    """
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size(group)
    if ranks < 2:
        raise UnsupportedError("all-reduce: not applicable to one rank")
    buffer = torch.full((buffer_bytes // 4,), float(dist.get_rank(group) + 1), device=torch_device)
    dist.all_reduce(buffer, group=group)
    if not bool((buffer == ranks * (ranks + 1) / 2).all()):
        raise DivergedError("the all-reduce is wrong: its result is not the sum over the ranks")
    # The steps go on summing it: positive numbers grow to infinity and stay there, NaN never appears, and
    # neither changes how long a sum takes.
    units = float(2 * (ranks - 1) / ranks * buffer.numel() * buffer.element_size() / ranks)

    def step() -> float:
        dist.all_reduce(buffer, group=group)
        return units

    return step


def run(job: Job, settings: Settings, device: TorchDevice, group: Group, on_window: OnWindow) -> Outcome:
    """Measure one ceiling, named by the Job's network, with the loop that measures everything else."""
    step, check, unit = _step(job, device)
    device.reset_peak_memory()
    measurement = measure(
        step,
        device,
        budget_s=settings.process_budget_s(),
        target=settings.target,
        window_s=settings.window_s,
        group=group,
        on_window=on_window,
    )
    check()
    throughput, status, reasons = conclude.judge(
        measurement.warm_up, measurement.windows, measurement.settled, unit, settings.target
    )
    samples = Samples(windows=measurement.windows, warm_up=measurement.warm_up, step_ms=measurement.step_ms)
    metrics = Metrics(throughput=throughput, first_step_s=measurement.first_step_s)
    conditions = {"matrix_size": step.size} if isinstance(step, MatrixProduct) else {}
    return Outcome(status, reasons, metrics, samples, conditions)


def _step(job: Job, device: TorchDevice) -> tuple[Step, Callable[[], object], str]:
    """The step of a ceiling, what proves that it did its work, and the unit of its rate."""
    if job.network == "matrix-product":
        precision = job.precision or "fp32"
        n = choose_matrix_size(device, MONOTONIC, device.torch_device, precision)
        product = matrix_product_step(device.torch_device, precision, n)
        return product, product.check, "FLOP/s"
    if job.network == "memory-copy":
        copy = memory_copy_step(device.torch_device)
        return copy, copy.check, "B/s"
    if job.network in ("host-to-device", "device-to-host"):
        direction: Direction = "host_to_device" if job.network == "host-to-device" else "device_to_host"
        link = host_link_step(device.torch_device, direction)
        return link, link.check, "B/s"
    if job.network == "all-reduce":
        return all_reduce_step(device.torch_device), _checked_before, "B/s"
    raise UnsupportedError(f"no ceiling is called {job.network}")


def _checked_before() -> None:
    """An all-reduce is checked when its step is made: afterwards its sums have grown beyond all bounds."""
