"""Which precisions a device computes in hardware, decided from what it is, without a framework.

A precision that the device only emulates is not measured as if it could: a CPU without the instructions takes
10 to 20 times as long in bf16 or fp16 as in fp32, which says nothing about the network.
"""

from __future__ import annotations

from accelmark.system import Accelerator, Cpu

#: CPU instructions that multiply matrices or vectors in the type itself (names as Linux prints them).
_CPU_INSTRUCTIONS = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
    "fp16": ("avx512_fp16", "amx_fp16", "asimdhp"),
}
#: First NVIDIA compute capability with the type in hardware (CUDA C++ Programming Guide, arithmetic
#: instructions): TF32 and bf16 came with Ampere, fp16 arithmetic with Maxwell's last chips.
_CUDA_SINCE = {"tf32": (8, 0), "bf16": (8, 0), "fp16": (5, 3)}


def unsupported(precision: str, accelerator: Accelerator, cpu: Cpu | None) -> str | None:
    """Why this precision is not measured here unless asked for, or None."""
    return absent(precision, accelerator) or emulated(precision, accelerator, cpu)


def emulated(precision: str, accelerator: Accelerator, cpu: Cpu | None) -> str | None:
    """Why this precision would only be emulated here, or None if it runs in hardware."""
    if accelerator.kind == "cpu" and precision in _CPU_INSTRUCTIONS:
        wanted = _CPU_INSTRUCTIONS[precision]
        if cpu is None or not set(wanted) & set(cpu.instructions):
            return f"emulated here: this CPU has no {precision} instructions ({', '.join(wanted[:2])})"
    if accelerator.kind == "cuda" and precision == "bf16" and _capability(accelerator) < _CUDA_SINCE["bf16"]:
        return f"emulated here: bf16 needs compute capability 8.0, {accelerator.name} has less"
    return None


def absent(precision: str, accelerator: Accelerator) -> str | None:
    """Why this precision cannot run here at all, or None if it can."""
    if precision == "tf32":
        if accelerator.kind == "cpu":
            return "TF32 exists on NVIDIA GPUs since Ampere; this device is a CPU: use fp32"
        if accelerator.kind != "cuda":
            return f"TF32 exists on NVIDIA GPUs since Ampere; this device is {accelerator.kind}: use fp32"
    if accelerator.kind == "cuda" and precision in ("tf32", "fp16"):
        needed = _CUDA_SINCE[precision]
        if _capability(accelerator) < needed:
            return (
                f"{precision} needs compute capability {needed[0]}.{needed[1]}, {accelerator.name} has less"
            )
    return None


def _capability(accelerator: Accelerator) -> tuple[int, int]:
    major, _, minor = (accelerator.compute_capability or "0.0").partition(".")
    return int(major), int(minor or 0)
