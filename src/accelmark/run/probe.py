"""What this machine can run, asked of the framework in a process of its own.

The parent never imports a framework; `examine` starts `python -m accelmark.run.probe`, which prints a Probe.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.util import find_spec

from pydantic import ValidationError

from accelmark.errors import AccelmarkError, MissingLibraryError, UsageError
from accelmark.job import Model
from accelmark.measure.machine import describe_host, nvidia_gpus, software_versions
from accelmark.system import Accelerator, Software, System


class Probe(Model):
    """The machine and its software, with one System for each kind of device that PyTorch can use here."""

    systems: dict[str, System]
    software: Software

    def system(self, kind: str | None) -> tuple[str, System]:
        """The device kind to use and its System: the preferred one, or the one that was asked for."""
        if kind is None:
            kind = next(iter(self.systems))
        if kind not in self.systems:
            raise UsageError(
                f"this machine has no {kind} device for PyTorch; it has {', '.join(self.systems)}."
            )
        return kind, self.systems[kind]


def examine() -> Probe:
    """Ask a fresh process; a `MissingLibraryError` says what to install if PyTorch is not there."""
    if find_spec("torch") is None:
        raise MissingLibraryError("measuring needs PyTorch: pip install 'accelmark[pytorch]'.")
    result = subprocess.run(
        [sys.executable, "-m", "accelmark.run.probe"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    try:
        return Probe.model_validate_json(result.stdout)
    except ValidationError:
        last = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        raise AccelmarkError(
            f"PyTorch does not start here ({last}); try: python -c 'import torch, torchvision'."
        ) from None


def _probe() -> Probe:
    import torch

    from accelmark.engines.pytorch import available_kinds

    host = describe_host()
    systems = {}
    for kind in available_kinds():
        accelerator = _accelerator(kind, host.cpu.name, host.cpu.cores)
        name = accelerator.name if kind != "cpu" else f"{host.cpu.name}, {host.cpu.cores} cores"
        systems[kind] = System(
            name=name,
            accelerator=accelerator,
            cpu=host.cpu,
            memory_gib=host.memory_gib,
            os=host.os,
            container=host.container,
        )
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else None
    software = software_versions().model_copy(
        update={
            "framework": f"pytorch {torch.__version__}",
            "engine": f"pytorch {torch.__version__}",
            "cuda": torch.version.cuda if torch.cuda.is_available() else None,
            "cudnn": str(cudnn) if cudnn else None,
            "nccl": nccl,
        }
    )
    return Probe(systems=systems, software=software)


def _accelerator(kind: str, cpu_name: str, cores: int | None) -> Accelerator:
    """The first accelerator of a kind and how many there are; on a CPU a core can carry one rank."""
    import torch

    if kind == "cpu":
        return Accelerator(name=cpu_name, kind=kind, count=cores or 1)
    if kind == "mps":
        return Accelerator(name=f"{platform.processor()} GPU", kind=kind)
    backend = torch.xpu if kind == "xpu" else torch.cuda
    properties = backend.get_device_properties(0)
    gpu = None
    if kind == "cuda":
        gpus, _ = nvidia_gpus()
        gpu = next((gpu for gpu in gpus if gpu.uuid and str(properties.uuid) in gpu.uuid), None)
    return Accelerator(
        name=properties.name,
        kind=kind,
        count=backend.device_count(),
        memory_gib=properties.total_memory / 2**30,
        driver=gpu.driver if gpu else None,
        power_limit_w=gpu.power_limit_w if gpu else None,
        compute_capability=f"{properties.major}.{properties.minor}" if kind == "cuda" else None,
    )


if __name__ == "__main__":
    print(_probe().model_dump_json())
