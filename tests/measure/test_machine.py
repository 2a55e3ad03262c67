"""The machine is described by files below a folder, so any machine can be written down and read again."""

# ruff: noqa: N802 - a fake NVML has NVML's names

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

import accelmark
from accelmark.measure import machine
from accelmark.measure.machine import GIB

XEON = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8480+
physical id\t: 0
flags\t\t: fpu avx avx2 fma avx512f avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 hypervisor

processor\t: 1
model name\t: Intel(R) Xeon(R) Platinum 8480+
physical id\t: 1
flags\t\t: fpu avx avx2 fma avx512f avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 hypervisor
"""
GRACE = """\
processor\t: 0
Features\t: fp asimd fphp asimdhp asimddp sve sve2 i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def describe(root: Path, **options):
    return machine.describe_host(root, system="Linux", affinity=range(8), environ={}, **options)


def test_linux_on_x86(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/cpuinfo": XEON,
            "proc/meminfo": "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n",
            "proc/sys/kernel/osrelease": "6.1.0\n",
            "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        },
    )
    cpu, memory_gib, os_name, container = describe(tmp_path)
    assert cpu.name == "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu.cores, cpu.sockets) == (8, 2)
    expected = "avx avx2 fma avx512f avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16"
    assert cpu.instructions == expected.split()
    assert memory_gib == 32
    assert os_name == "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
    assert container is None
    assert machine.memory_available_gib(tmp_path) == 16


def test_linux_on_arm_has_a_name_for_its_part_number(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": GRACE, "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0"})
    cpu = describe(tmp_path).cpu
    assert cpu.name == "Arm Neoverse-V2"
    assert cpu.sockets == 1
    assert {"asimdhp", "bf16", "i8mm", "sve2"} <= set(cpu.instructions)


def test_instructions_are_those_of_all_cores(tmp_path: Path) -> None:
    mixed = "flags : avx2 avx512f\n\nprocessor : 1\nflags : avx2\n"
    cpu = describe(write(tmp_path, {"proc/cpuinfo": mixed})).cpu
    assert cpu.instructions == ["avx2"]


def test_an_empty_system_gives_no_guess(tmp_path: Path) -> None:
    cpu, memory_gib, _, container = describe(tmp_path)
    assert cpu.sockets is None
    assert cpu.instructions == []
    assert container is None
    assert memory_gib == psutil.virtual_memory().total / GIB
    assert machine.cpu_quota(tmp_path) is None
    assert machine.last_level_cache_bytes(tmp_path) is None


def test_macos() -> None:
    values = {
        "machdep.cpu.brand_string": "Apple M4",
        "hw.packages": "1",
        "hw.optional.arm.FEAT_BF16": "1",
        "hw.optional.arm.FEAT_FP16": "1",
        "hw.optional.arm.FEAT_SME": "0",
    }
    host = machine.describe_host(
        Path("/nowhere"), system="Darwin", affinity=range(10), environ={}, sysctl=values.get
    )
    assert host.cpu.name == "Apple M4"
    assert (host.cpu.cores, host.cpu.sockets) == (10, 1)
    assert host.cpu.instructions == ["asimdhp", "bf16"]


def test_windows_tells_at_least_cores() -> None:
    host = machine.describe_host(Path("/nowhere"), system="Windows", affinity=range(4), environ={})
    assert host.cpu.name
    assert host.cpu.cores == 4


@pytest.mark.parametrize(
    ("limit", "quota", "cpus"),
    [
        ("max 100000", None, 8),
        ("400000 100000", 4.0, 4),
        ("150000 100000", 1.5, 1),
        ("50000 100000", 0.5, 1),
        ("9900000 100000", 99.0, 8),
    ],
)
def test_quota_of_version_2(tmp_path: Path, limit: str, quota: float | None, cpus: int) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": limit})
    assert machine.cpu_quota(tmp_path) == quota
    assert machine.usable_cpus(tmp_path, affinity=range(8)) == list(range(cpus))


def test_a_parent_group_limits_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/job\n",
            "sys/fs/cgroup/slice/cpu.max": "200000 100000",
            "sys/fs/cgroup/slice/job/cpu.max": "400000 100000",
        },
    )
    assert machine.cpu_quota(tmp_path) == 2


def test_a_path_of_the_host_ends_at_the_mount(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"proc/self/cgroup": "0::/../docker/abc\n", "sys/fs/cgroup/cpu.max": "300000 100000"},
    )
    assert machine.cpu_quota(tmp_path) == 3


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_quota_of_version_1(tmp_path: Path, folder: str) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/\n3:cpu,cpuacct:/job\n0::/\n",
            f"sys/fs/cgroup/{folder}/job/cpu.cfs_quota_us": "250000",
            f"sys/fs/cgroup/{folder}/job/cpu.cfs_period_us": "100000",
            f"sys/fs/cgroup/{folder}/cpu.cfs_quota_us": "-1",
            f"sys/fs/cgroup/{folder}/cpu.cfs_period_us": "100000",
        },
    )
    assert machine.cpu_quota(tmp_path) == 2.5


def test_affinity_is_kept_in_order_and_cut_by_the_quota(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000"})
    assert machine.usable_cpus(tmp_path, affinity={9, 3, 5}) == [3, 5]


def test_memory_limit_of_version_2_leaves_out_what_the_kernel_gives_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {60 * 2**20} kB\n",
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": str(8 * GIB),
            "sys/fs/cgroup/memory.current": str(5 * GIB),
            "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {3 * GIB}\n",
        },
    )
    assert describe(tmp_path).memory_gib == 8
    assert machine.memory_available_gib(tmp_path) == 6


def test_memory_without_a_limit_of_version_1(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {60 * 2**20} kB\n",
            "proc/self/cgroup": "5:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": str(5 * GIB),
        },
    )
    assert describe(tmp_path).memory_gib == 64
    assert machine.memory_available_gib(tmp_path) == 60


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"proc/self/cgroup": "0::/docker/abc"}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"proc/self/cgroup": "0::/kubepods/pod1"}, {}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/image.sif"}, "apptainer"),
        ({}, {"container": "systemd-nspawn"}, "systemd-nspawn"),
    ],
)
def test_container(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str | None) -> None:
    assert machine.container(write(tmp_path, files), environ) == kind


def test_all_last_level_caches_count_once_each(tmp_path: Path) -> None:
    for cpu, group in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        for index, (level, size, shared) in enumerate(
            [("1", "32K", str(cpu)), ("2", "1024K", str(cpu)), ("3", "32M", group)]
        ):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            write(
                tmp_path,
                {
                    f"{folder}/level": level,
                    f"{folder}/size": size,
                    f"{folder}/shared_cpu_list": shared,
                },
            )
    assert machine.last_level_cache_bytes(tmp_path) == 2 * 32 * 2**20


# --- NVIDIA ------------------------------------------------------------------------------------------------


class FakeNvml:
    """Two boards: an H100 in MIG mode and an old one that answers few questions."""

    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = pynvml.NVMLError_DriverNotLoaded
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, init_error: int | None = None, lost: tuple[int, ...] = ()) -> None:
        self.init_error = init_error
        self.lost = lost

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)

    def __getattr__(self, name: str):
        answers = {
            "nvmlSystemGetDriverVersion": lambda: "580.65",
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetName": lambda handle: {0: "NVIDIA H100", 1: "Quadro K600"}.get(
                handle, "MIG 1g.10gb"
            ),
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80 * GIB),
        }
        only_h100 = {
            "nvmlDeviceGetPowerManagementLimit": 600_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetPersistenceMode": 0,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [1, 1],
            "nvmlDeviceGetMaxMigDeviceCount": 7,
        }
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return self._instance
        if name in only_h100:
            return lambda handle: only_h100[name] if handle == 0 else _refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return answers[name]

    def _handle(self, index: int) -> int:
        return _refuse(pynvml.NVML_ERROR_GPU_IS_LOST) if index in self.lost else index

    def _instance(self, handle: int, position: int) -> str:
        return f"mig{position}" if position < 2 else _refuse(pynvml.NVML_ERROR_NOT_FOUND)


def _refuse(code: int):
    raise pynvml.NVMLError(code)


def test_gpus_tell_what_they_can() -> None:
    (first, second), reason = machine.nvidia_gpus(FakeNvml())
    assert reason is None
    assert first.name == "NVIDIA H100"
    assert first.memory_gib == 80
    assert first.driver == "580.65"
    assert (first.power_limit_w, first.power_default_w) == (600, 700)
    assert first.compute_capability == "9.0"
    assert first.uuid == "GPU-0"
    assert (first.persistence, first.ecc, first.mig) == (False, True, True)
    assert first.partitions == ("MIG 1g.10gb", "MIG 1g.10gb")
    assert second.name == "Quadro K600"
    assert second.power_limit_w is None
    assert second.compute_capability is None
    assert (second.persistence, second.ecc, second.mig, second.partitions) == (None, None, None, ())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "does not answer"),
    ],
)
def test_no_driver_gives_no_gpus_and_a_reason(code: int, words: str) -> None:
    gpus, reason = machine.nvidia_gpus(FakeNvml(init_error=code))
    assert gpus == []
    assert words in reason


def test_a_lost_gpu_does_not_hide_the_others() -> None:
    gpus, reason = machine.nvidia_gpus(FakeNvml(lost=(0,)))
    assert [gpu.index for gpu in gpus] == [1]
    assert reason.startswith("GPU 0 does not answer")


# --- software ----------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = write(tmp_path, {"src/package/__init__.py": ""}) / "src/package"
    git(tmp_path, "init", "--quiet")
    return package


def test_revision_of_a_checkout(checkout: Path) -> None:
    assert machine.git_revision(checkout) is None  # nothing is committed, or even known to git
    git(checkout, "add", ".")
    assert machine.git_revision(checkout) is None
    git(checkout, "commit", "--quiet", "-m", "first")
    revision = git(checkout, "rev-parse", "HEAD")[:12]
    assert machine.git_revision(checkout) == revision
    (checkout.parent / "elsewhere.py").write_text("")
    assert machine.git_revision(checkout) == revision
    (checkout / "new.py").write_text("")
    assert machine.git_revision(checkout) == f"{revision}+dirty"


def test_a_package_installed_inside_a_repository_is_not_of_it(checkout: Path) -> None:
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "first")
    installed = write(checkout.parent.parent, {"venv/other/__init__.py": ""}) / "venv/other"
    assert machine.git_revision(installed) is None


def test_no_revision_without_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert machine.git_revision(checkout) is None


def test_software_versions_are_those_installed() -> None:
    software = machine.software_versions()
    assert software.accelmark == accelmark.__version__
    assert software.libraries["numpy"] == importlib.metadata.version("numpy")
    assert "no such distribution" not in software.libraries
    assert machine.installed_version("no-such-distribution") is None


def test_mig_instances_are_those_of_the_boards_that_answer() -> None:
    found = machine.mig_instances(nvml=FakeNvml())
    assert [(each.profile, each.uuid) for each in found] == [("1g.10gb", "GPU-mig0"), ("1g.10gb", "GPU-mig1")]
    assert machine.mig_instances("1g.10gb", FakeNvml()) == found
    assert machine.mig_instances("3g.40gb", FakeNvml()) == []
    assert machine.mig_instances(nvml=FakeNvml(lost=(0,))) == []
    assert machine.mig_instances(nvml=FakeNvml(init_error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)) == []
