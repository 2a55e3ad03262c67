"""What this machine is, told without importing a framework.

Everything is read from below one folder, `root`, so that tests describe a machine by writing files. What a
system does not tell is `None`; nothing is guessed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import accelmark
from accelmark.job import Model
from accelmark.system import Cpu, Software

ROOT = Path("/")
GIB = 2**30

#: The instruction sets that decide how fast a network runs on a CPU, in the spelling of /proc/cpuinfo.
INSTRUCTIONS = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "fphp", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "svebf16", "sme", "sme2"),
)
#: macOS tells the same under names of its own.
_MACOS_INSTRUCTIONS = {
    "hw.optional.avx2_0": "avx2",
    "hw.optional.avx512f": "avx512f",
    "hw.optional.AdvSIMD": "asimd",
    "hw.optional.arm.FEAT_FP16": "asimdhp",
    "hw.optional.arm.FEAT_DotProd": "asimddp",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_BF16": "bf16",
    "hw.optional.arm.FEAT_SME": "sme",
    "hw.optional.arm.FEAT_SME2": "sme2",
}
#: Arm's own cores have numbers instead of a name in /proc/cpuinfo (implementer 0x41).
_ARM_PARTS = {
    "0xd08": "Arm Cortex-A72",
    "0xd0b": "Arm Cortex-A76",
    "0xd0c": "Arm Neoverse-N1",
    "0xd40": "Arm Neoverse-V1",
    "0xd42": "Arm Cortex-A78AE",
    "0xd49": "Arm Neoverse-N2",
    "0xd4f": "Arm Neoverse-V2",
    "0xd84": "Arm Neoverse-V3",
    "0xd8e": "Arm Neoverse-N3",
}
#: Libraries whose version a result may depend on.
LIBRARIES = ("numpy", "torch", "torchvision", "timm", "transformers", "triton", "psutil", "nvidia-ml-py")

Sysctl = Callable[[str], str | None]


class Host(NamedTuple):
    """The machine apart from its accelerators."""

    cpu: Cpu
    memory_gib: float | None
    os: str | None
    container: str | None


class Gpu(Model):
    """One NVIDIA board as NVML describes it; `None` where the board or the permission does not tell."""

    index: int
    name: str
    uuid: str | None = None
    memory_gib: float | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    compute_capability: str | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    mig: bool | None = None
    partitions: tuple[str, ...] = ()
    partition_uuids: tuple[str, ...] = ()


def read_text(path: Path) -> str | None:
    """The text of a small system file; `None` where the system lacks it or hides it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The whole number in a small system file; `None` where there is none."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


# --- limits of the control group ---------------------------------------------------------------------------


def _cgroup_levels(controller: str, root: Path) -> list[Path]:
    """The folders that limit this process, its own first and the topmost last.

    Every level counts, since a parent's limit binds too. Inside a container the path in /proc may belong to
    the host and not exist below the mount; walking up ends at the mount, which is then the container's own.
    """
    mount = root / "sys/fs/cgroup"
    levels = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2: one tree for all controllers
            base = mount
        elif controller in controllers.split(","):
            base = mount / controller if (mount / controller).exists() else mount / controllers
        else:
            continue
        own = Path(path.lstrip("/"))
        levels += [base / level for level in (own, *own.parents) if ".." not in level.parts]
    return list(dict.fromkeys(levels))


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that the control groups allow (versions 1 and 2); `None` without a quota."""
    quotas = []
    for level in _cgroup_levels("cpu", root):
        match (read_text(level / "cpu.max") or "").split():
            case [quota, period] if quota != "max":
                quotas.append(int(quota) / int(period))
        quota_us, period_us = read_int(level / "cpu.cfs_quota_us"), read_int(level / "cpu.cfs_period_us")
        if quota_us is not None and period_us and quota_us > 0:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def _memory_limits(root: Path) -> list[tuple[int, int]]:
    """Limit and use in bytes for each control group that limits memory.

    Cached file pages that nobody used lately count as use in the kernel's sum but are given up on demand.
    """
    limits = []
    for level in _cgroup_levels("memory", root):
        for limit_name, used_name, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit = read_int(level / limit_name)  # "max", no limit, is no number
            if limit is None:
                continue
            statistics = dict(
                line.split(" ", 1) for line in (read_text(level / "memory.stat") or "").splitlines()
            )
            used = (read_int(level / used_name) or 0) - int(statistics.get(cache_name, "0"))
            limits.append((limit, max(used, 0)))
    return limits


# --- the host ----------------------------------------------------------------------------------------------


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """/proc/cpuinfo, one mapping a processor."""
    blocks = (read_text(root / "proc/cpuinfo") or "").split("\n\n")
    return [
        {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        for block in blocks
    ]


def meminfo_bytes(root: Path = ROOT) -> dict[str, int]:
    """/proc/meminfo in bytes; empty where there is none."""
    lines = (read_text(root / "proc/meminfo") or "").splitlines()
    fields = (line.split() for line in lines)
    return {field[0].rstrip(":"): int(field[1]) * 1024 for field in fields if len(field) == 3}


def usable_cpus(root: Path = ROOT, affinity: Collection[int] | None = None) -> list[int]:
    """The logical CPUs that this process may use: its affinity, no more of them than the quota allows.

    A quota of 1.5 CPUs counts as one: a second busy thread would be stopped for half of its time.
    """
    if affinity is None:
        has_affinity = hasattr(os, "sched_getaffinity")
        affinity = os.sched_getaffinity(0) if has_affinity else range(os.cpu_count() or 1)
    quota = cpu_quota(root)
    return sorted(affinity)[: None if quota is None else max(1, int(quota))]


def usable_cores(root: Path = ROOT, affinity: Collection[int] | None = None) -> int:
    """How many logical CPUs this process may use."""
    return len(usable_cpus(root, affinity))


def _linux_cpu(root: Path, affinity: Collection[int] | None) -> Cpu:
    processors = _cpuinfo(root)
    first = processors[0]
    part = _ARM_PARTS.get(first.get("CPU part", "")) if first.get("CPU implementer") == "0x41" else None
    name = first.get("model name") or part or first.get("cpu") or platform.machine() or "unknown CPU"

    packages = {
        read_int(path)
        for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    } or {int(processor["physical id"]) for processor in processors if "physical id" in processor}
    packages -= {None, -1}  # -1: firmware that does not tell

    sets = [
        set((processor.get("flags") or processor.get("Features") or "").split())
        for processor in processors
        if "flags" in processor or "Features" in processor
    ]
    common = set.intersection(*sets) if sets else set()  # cores of one chip may differ
    return Cpu(
        name=name,
        cores=usable_cores(root, affinity),
        sockets=len(packages) or None,
        instructions=[instruction for instruction in INSTRUCTIONS if instruction in common],
    )


def sysctl(name: str) -> str | None:
    """One value of the macOS kernel; `None` where it does not know the name."""
    try:
        result = subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None


def _macos_cpu(sysctl: Sysctl, root: Path, affinity: Collection[int] | None) -> Cpu:
    packages = sysctl("hw.packages")
    return Cpu(
        name=sysctl("machdep.cpu.brand_string") or platform.machine() or "unknown CPU",
        cores=usable_cores(root, affinity),
        sockets=int(packages) if packages else None,
        instructions=[short for long, short in _MACOS_INSTRUCTIONS.items() if sysctl(long) == "1"],
    )


def _os_name(root: Path, system: str) -> str | None:
    if system == "Darwin":
        return f"macOS {platform.mac_ver()[0]}".strip()
    if system != "Linux":
        return f"{platform.system()} {platform.release()}".strip() or None
    release = dict(
        line.split("=", 1)
        for line in (read_text(root / "etc/os-release") or "").splitlines()
        if "=" in line and not line.startswith("#")
    )
    distribution = release.get("PRETTY_NAME", "").strip("\"'")
    kernel = f"Linux {read_text(root / 'proc/sys/kernel/osrelease') or platform.release()}"
    return f"{distribution}, {kernel}" if distribution else kernel


def container(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> str | None:
    """The kind of container that this process runs in; `None` outside of one."""
    groups = read_text(root / "proc/self/cgroup") or ""
    if "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in groups:
        return "kubernetes"
    if (root / "run/.containerenv").exists() or "libpod" in groups:
        return "podman"
    if (root / ".dockerenv").exists() or "/docker" in groups:
        return "docker"
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return "apptainer"
    return environ.get("container") or None


def describe_host(
    root: Path = ROOT,
    *,
    system: str | None = None,
    affinity: Collection[int] | None = None,
    environ: Mapping[str, str] = os.environ,
    sysctl: Sysctl = sysctl,
) -> Host:
    """The CPU, the memory that may be used, the operating system and the container."""
    system = system or platform.system()
    if system == "Linux":
        cpu = _linux_cpu(root, affinity)
    elif system == "Darwin":
        cpu = _macos_cpu(sysctl, root, affinity)
    else:  # Windows tells a name; its instruction sets stay unknown
        cpu = Cpu(name=platform.processor() or "unknown CPU", cores=usable_cores(root, affinity))
    total = meminfo_bytes(root).get("MemTotal") or psutil.virtual_memory().total
    usable = min([total, *(limit for limit, _ in _memory_limits(root))])
    return Host(cpu, usable / GIB, _os_name(root, system), container(root, environ))


def memory_available_gib(root: Path = ROOT) -> float:
    """GiB that a new process can take without swapping, in the machine and in its control group."""
    free = meminfo_bytes(root).get("MemAvailable")
    if free is None:
        free = psutil.virtual_memory().available
    return min([free, *(max(limit - used, 0) for limit, used in _memory_limits(root))]) / GIB


def last_level_cache_bytes(root: Path = ROOT) -> int | None:
    """All last-level caches of the machine together; `None` where it does not tell.

    One chip may have many (one for each group of cores), and a copy by all cores goes through all of them.
    """
    caches: dict[tuple[int, str], int] = {}
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        level, size = read_int(folder / "level"), read_text(folder / "size")
        shared = read_text(folder / "shared_cpu_list")
        if level is None or not size or shared is None:
            continue
        scale = {"K": 2**10, "M": 2**20}.get(size[-1], 1)
        caches[level, shared] = int(size.rstrip("KM")) * scale
    last = max((level for level, _ in caches), default=None)
    return sum(size for (level, _), size in caches.items() if level == last) or None


# --- NVIDIA ------------------------------------------------------------------------------------------------


def load_nvml(nvml: Any = None) -> Any:
    """NVML, ready for use; or, as a `str`, why there is none.

    It is never shut down: NVML counts its users, and the end of the process ends the last one.
    """
    if nvml is None:
        nvml = importlib.import_module("pynvml")  # here, since half of the commands never ask the GPU
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound:
        return "no NVIDIA driver is visible here"
    except nvml.NVMLError_DriverNotLoaded:
        return "the NVIDIA driver is installed but not loaded"
    except nvml.NVMLError as error:
        return f"the NVIDIA driver does not answer: {error}"
    return nvml


def ask(nvml: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """One answer of NVML; `None` where this board, driver or user may not have it."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


def _partitions(nvml: Any, handle: Any) -> list[tuple[str, str]]:
    """Names of the MIG instances, such as `NVIDIA H100 80GB HBM3 MIG 1g.10gb`, and their UUIDs."""
    found = []
    for position in range(ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, position)
        name = ask(nvml, nvml.nvmlDeviceGetName, instance) if instance is not None else None
        uuid = ask(nvml, nvml.nvmlDeviceGetUUID, instance) if name is not None else None
        if name is not None:
            found.append((str(name), str(uuid)))
    return found


def _describe_gpu(nvml: Any, index: int, driver: str | None) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)  # a board that does not tell its name is lost

    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    limit = ask(nvml, nvml.nvmlDeviceGetPowerManagementLimit, handle)
    default = ask(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    capability = ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    persistence = ask(nvml, nvml.nvmlDeviceGetPersistenceMode, handle)
    ecc = ask(nvml, nvml.nvmlDeviceGetEccMode, handle)
    mig = ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    mig_on = mig is not None and mig[0] == nvml.NVML_DEVICE_MIG_ENABLE
    partitions = _partitions(nvml, handle) if mig_on else []
    return Gpu(
        index=index,
        name=name,
        uuid=ask(nvml, nvml.nvmlDeviceGetUUID, handle),
        memory_gib=memory.total / GIB if memory is not None else None,
        driver=driver,
        power_limit_w=limit / 1000 if limit is not None else None,
        power_default_w=default / 1000 if default is not None else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability is not None else None,
        persistence=bool(persistence) if persistence is not None else None,
        ecc=bool(ecc[0]) if ecc is not None else None,
        mig=mig_on if mig is not None else None,
        partitions=tuple(name for name, _ in partitions),
        partition_uuids=tuple(uuid for _, uuid in partitions),
    )


def nvidia_gpus(nvml: Any = None) -> tuple[list[Gpu], str | None]:
    """The NVIDIA boards in NVML's order (that of the PCI bus), and why one or all are missing.

    CUDA may number boards otherwise (`CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`); `uuid` tells them apart.
    """
    nvml = load_nvml(nvml)
    if isinstance(nvml, str):
        return [], nvml
    gpus, reasons = [], []
    driver = ask(nvml, nvml.nvmlSystemGetDriverVersion)
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpus.append(_describe_gpu(nvml, index, driver))
        except nvml.NVMLError as error:
            reasons.append(f"GPU {index} does not answer: {error}")
    if not gpus and not reasons:
        reasons.append("the NVIDIA driver finds no GPU")
    return gpus, "; ".join(reasons) or None


class MigInstance(NamedTuple):
    """A part of a board that NVIDIA's driver has set up: `NVIDIA H100 80GB HBM3 MIG 1g.10gb` and its UUID."""

    name: str
    uuid: str

    @property
    def profile(self) -> str:
        """What it has of the board, such as `1g.10gb`."""
        return self.name.rpartition("MIG ")[2]


def mig_instances(profile: str | None = None, nvml: Any = None) -> list[MigInstance]:
    """The MIG instances of all boards, or those of a profile, in NVML's order; none are made here."""
    gpus, _ = nvidia_gpus(nvml)
    found = [
        MigInstance(*each) for gpu in gpus for each in zip(gpu.partitions, gpu.partition_uuids, strict=True)
    ]
    return [each for each in found if profile in (None, each.profile)]


# --- software ----------------------------------------------------------------------------------------------


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, without importing it; `None` if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; `None` if it refuses or is not there. It takes no lock: others may work there."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def git_revision(package_dir: Path) -> str | None:
    """The commit that a package runs from, with `+dirty` if its files differ; `None` outside a checkout.

    A package installed into an environment that lies inside somebody's repository is not of that
    repository, so git has to know the package's own files.
    """
    if _git(package_dir, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    revision = _git(package_dir, "rev-parse", "--short=12", "HEAD")
    if revision is None:
        return None
    changes = _git(package_dir, "status", "--porcelain", "--", ".")
    return revision if changes == "" else f"{revision}+dirty"


def software_versions() -> Software:
    """accelmark, Python and the libraries by version; the worker adds what only a framework knows."""
    versions = {name: installed_version(name) for name in LIBRARIES}
    return Software(
        accelmark=accelmark.__version__,
        python=platform.python_version(),
        libraries={name: version for name, version in versions.items() if version is not None},
        git_revision=git_revision(Path(accelmark.__file__).parent),
    )
