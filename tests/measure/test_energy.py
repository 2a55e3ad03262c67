"""Known joules over known time, through sensors made of files and of a fake NVML, must give known watts."""

# ruff: noqa: N802 - a fake NVML has NVML's names

from __future__ import annotations

import threading
from pathlib import Path

import pynvml
import pytest

from accelmark.measure import energy
from accelmark.measure.energy import SensorError, find, idle_power_w
from accelmark.measure.telemetry import Sampler


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


START = Sampler.start


@pytest.fixture(autouse=True)
def _no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings come from the test alone, so that their times are known."""
    monkeypatch.setattr(Sampler, "start", lambda self: None)


@pytest.fixture
def _real_thread(_no_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "start", START)


def packages(root: Path, *zones: dict[str, str]) -> Path:
    for number, files in enumerate(zones):
        folder = root / f"sys/class/powercap/intel-rapl:{number}"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    return root


def package(number: int, energy_uj: int, whole_uj: int = 262_143_328_850) -> dict[str, str]:
    return {
        "name": f"package-{number}\n",
        "energy_uj": f"{energy_uj}\n",
        "max_energy_range_uj": f"{whole_uj}\n",
    }


def burn(root: Path, number: int, energy_uj: int) -> None:
    (root / f"sys/class/powercap/intel-rapl:{number}/energy_uj").write_text(str(energy_uj))


class FakeNvml:
    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = pynvml.NVMLError_DriverNotLoaded
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, boards: int = 1, counter: bool = True, sensor: bool = True, mig: int = 0) -> None:
        self.boards, self.counter, self.sensor, self.mig = boards, counter, sensor, mig
        self.millijoules = [0] * boards
        self.milliwatts = [0] * boards
        self.lost = False

    def nvmlInit(self) -> None:
        if not self.boards:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def nvmlDeviceGetCount(self) -> int:
        return self.boards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index >= self.boards:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [self.mig, self.mig]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        self._answer(self.counter)
        return self.millijoules[handle]

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._answer(self.sensor)
        return self.milliwatts[handle]

    def _answer(self, supported: bool) -> None:
        if self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if not supported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def watts(meter: energy.EnergyMeter, use, seconds: float) -> float:
    """Mean power while `use` changes the sensors."""
    before = meter.read_j()
    use()
    return (meter.read_j() - before) / seconds


# --- CPU packages ------------------------------------------------------------------------------------------


def test_rapl_known_joules_give_known_watts(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 1_000_000))
    meter = find([], root=tmp_path)
    assert meter.name == "RAPL, CPU packages"
    # 500 J in 10 s are 50 W: not 100, not 25.
    assert watts(meter, lambda: burn(tmp_path, 0, 501_000_000), 10) == 50


def test_rapl_sums_packages_and_nothing_inside_or_above_them(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 0), package(1, 0), {**package(2, 0), "name": "psys"})
    for extra in ("intel-rapl:0:0", "intel-rapl-mmio:0", "intel-rapl"):
        folder = tmp_path / "sys/class/powercap" / extra
        folder.mkdir()
        (folder / "name").write_text("package-0")
        (folder / "energy_uj").write_text("0")
    meter = find([], root=tmp_path)

    def use() -> None:
        for zone in (tmp_path / "sys/class/powercap").glob("*/energy_uj"):
            zone.write_text("100000000")

    assert watts(meter, use, 1) == 200


def test_rapl_counter_that_starts_again(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 990_000_000, whole_uj=1_000_000_000), package(1, 5_000_000))
    meter = find([], root=tmp_path)

    def use() -> None:
        burn(tmp_path, 0, 20_000_000)  # 10 J to the end and 20 J from the start
        burn(tmp_path, 1, 15_000_000)

    assert watts(meter, use, 2) == pytest.approx((30 + 10) / 2)
    # And once more: readings go on from there.
    assert watts(meter, lambda: burn(tmp_path, 0, 10_000_000), 1) == pytest.approx(990)


@pytest.mark.usefixtures("_real_thread")
def test_rapl_is_read_in_the_background_so_that_no_restart_is_missed(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 0, whole_uj=1_000_000))
    meter = energy.Rapl([tmp_path / "sys/class/powercap/intel-rapl:0"], interval_s=0.01)
    try:
        for value in (900_000, 800_000, 700_000):  # 0.9 J, then twice a restart with 0.9 J
            burn(tmp_path, 0, value)
            done = threading.Event()
            done.wait(0.3)
        assert meter.read_j() == pytest.approx(2.7)
    finally:
        meter.close()


def test_rapl_that_disappears_is_a_sentence(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 0))
    meter = find([], root=tmp_path)
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    with pytest.raises(SensorError, match="stopped answering"):
        meter.read_j()


def test_rapl_missing(tmp_path: Path) -> None:
    reason = find(None, nvml=FakeNvml(boards=0), root=tmp_path)
    assert reason == f"no NVIDIA GPU and no RAPL counter: {tmp_path}/sys/class/powercap is missing"


def test_rapl_without_packages(tmp_path: Path) -> None:
    (tmp_path / "sys/class/powercap").mkdir(parents=True)
    assert "lists no CPU package" in find([], root=tmp_path)


def test_rapl_hidden_by_a_container(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/powercap"
    folder.mkdir(parents=True)
    (folder / "intel-rapl:0").symlink_to("../../devices/virtual/powercap/intel-rapl/intel-rapl:0")
    assert "outside the container" in find([], root=tmp_path)


def test_rapl_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(tmp_path, package(0, 0))
    read_text = Path.read_text

    def refuse(self: Path, *arguments: str, **options: str) -> str:
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(self))
        return read_text(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)  # root, as in a container, may read anything
    reason = find([], root=tmp_path)
    assert reason.startswith("RAPL counter exists but is not readable: run as root or `sudo chmod a+r ")


# --- NVIDIA boards -----------------------------------------------------------------------------------------


def test_nvml_counter_counts_millijoules() -> None:
    nvml = FakeNvml()
    meter = find([0], nvml=nvml)
    assert meter.name == "NVML, board"

    def use() -> None:
        nvml.millijoules[0] += 3_000_000

    assert watts(meter, use, 10) == 300


def test_nvml_counts_the_boards_that_were_asked_for() -> None:
    nvml = FakeNvml(boards=4)
    meter = find([1, 3], nvml=nvml)
    assert meter.name == "NVML, 2 boards"

    def use() -> None:
        nvml.millijoules = [1_000, 2_000, 4_000, 8_000]

    assert watts(meter, use, 1) == 10


def test_nvml_power_is_summed_over_time_without_a_counter() -> None:
    nvml, clock = FakeNvml(counter=False), Clock()
    meter = find([0], nvml=nvml, clock=clock)
    assert meter.name == "NVML, board, summed from power samples"
    nvml.milliwatts[0] = 100_000
    start = meter.read_j()
    for _ in range(10):  # constant 100 W for 5 s
        clock.now += 0.5
        meter.read_j()
    assert meter.read_j() - start == pytest.approx(500)
    clock.now += 2  # rises evenly from 100 W to 300 W in 2 s: 200 W in the mean
    nvml.milliwatts[0] = 300_000
    assert meter.read_j() - start == pytest.approx(500 + 400)


@pytest.mark.usefixtures("_real_thread")
def test_nvml_power_samples_by_itself() -> None:
    nvml, calls = FakeNvml(counter=False), threading.Semaphore(0)
    usage = nvml.nvmlDeviceGetPowerUsage

    def count(handle: int) -> int:
        calls.release()
        return usage(handle)

    nvml.nvmlDeviceGetPowerUsage = count
    meter = find([0], nvml=nvml)
    assert all(calls.acquire(timeout=10) for _ in range(4))
    meter.close()


def test_mig_is_named_because_the_board_is_shared() -> None:
    assert find([0], nvml=FakeNvml(mig=1)).name == "NVML, board with all MIG instances"


def test_boards_come_before_packages_and_are_not_replaced_by_them(tmp_path: Path) -> None:
    packages(tmp_path, package(0, 0))
    assert find(None, nvml=FakeNvml(), root=tmp_path).name == "NVML, board"
    assert find(None, nvml=FakeNvml(boards=0), root=tmp_path).name == "RAPL, CPU packages"
    assert "no power sensor" in find(None, nvml=FakeNvml(counter=False, sensor=False), root=tmp_path)
    assert "no NVIDIA driver" in find([0], nvml=FakeNvml(boards=0), root=tmp_path)
    assert "GPU 1 does not answer" in find([1], nvml=FakeNvml(), root=tmp_path)


@pytest.mark.parametrize("counter", [True, False])
def test_nvml_that_is_lost_is_a_sentence(counter: bool) -> None:
    nvml = FakeNvml(counter=counter)
    meter = find([0], nvml=nvml)
    nvml.lost = True
    with pytest.raises(SensorError, match="stopped answering"):
        meter.read_j()


# --- idle --------------------------------------------------------------------------------------------------


def test_idle_power() -> None:
    nvml, clock = FakeNvml(), Clock()

    def sleep(seconds: float) -> None:
        clock.now += seconds + 0.5  # sleeping takes longer than asked for
        nvml.millijoules[0] += round(60_000 * (seconds + 0.5))

    assert idle_power_w(find([0], nvml=nvml), clock, sleep) == pytest.approx(60)


def test_a_counter_that_stands_still_is_no_power() -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    assert idle_power_w(find([0], nvml=FakeNvml()), clock, sleep) is None
