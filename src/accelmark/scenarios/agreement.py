"""Whether an engine gives the right answers: its outputs beside those of eager fp32 on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from accelmark.record import Agreement

REFERENCE = "eager fp32"
#: What the root mean square of the difference may be, relative to the reference's. Rounding of fp32 gives
#: 1e-5 in networks of a hundred layers, TF32's 10 bits 1e-3, bf16's 7 bits 1e-2; a graph that computes
#: something else gives 1. Static int8 of networks whose weights are random gives 0.02 to 0.25, because
#: activations of random networks use their range badly.
BOUNDS = {"fp32": 1e-3, "tf32": 1e-2, "fp16": 2e-2, "bf16": 1e-1, "int8": 0.3}
#: What share of whole-number outputs (tokens, letters) must be the same.
EQUAL = {"fp32": 0.99, "tf32": 0.95, "fp16": 0.95, "bf16": 0.8, "int8": 0.5}
#: Networks mark what is excluded by numbers from here on, which stand for infinity.
INFINITE = 1e6

Outputs = Sequence[torch.Tensor]


def compare(
    outputs: Sequence[Outputs],
    reference: Sequence[Outputs],
    precision: str,
    *,
    classes: bool = False,
    ordered: bool = True,
) -> Agreement:
    """Compare the outputs of several batches, each a list of tensors [batch, ...].

    `classes`: the first output are scores of classes. Not `ordered`: an output lists what was found in an
    order that rounding decides, so the values are compared and not their places.
    """
    relative: list[float] = []
    largest: list[float] = []
    mean: list[float] = []
    same = numbers = 0
    best: list[torch.Tensor] = []
    for place in range(len(reference[0])):
        wanted, given = _rows(reference, place), _rows(outputs, place)
        if given.shape != wanted.shape:
            return _nothing_alike(precision, len(wanted))
        if not wanted.is_floating_point():
            if not ordered:
                given, wanted = given.sort(1).values, wanted.sort(1).values
            same += int((given == wanted).sum())
            numbers += wanted.numel()
            continue
        given, wanted = given.double(), wanted.double()
        if classes and place == 0:
            best = [given.argmax(1), wanted.argmax(1)]
        if not ordered:
            given, wanted = given.sort(1).values, wanted.sort(1).values
        real = wanted.abs() < INFINITE
        difference, scale = (given - wanted)[real], float(wanted[real].square().mean().sqrt())
        if not torch.isfinite(difference).all():
            return _nothing_alike(precision, len(wanted))
        if difference.numel() and scale:
            relative.append(float(difference.square().mean().sqrt()) / scale)
            largest.append(float(difference.abs().max()) / scale)
            mean.append(float(difference.abs().mean()) / scale)
    samples = len(_rows(reference, 0))
    return Agreement(
        reference=REFERENCE,
        samples=samples,
        bound=BOUNDS[precision],
        relative_rms=max(relative, default=None),
        largest=max(largest, default=None),
        mean=max(mean, default=None),
        equal=same / numbers if numbers else None,
        top1=float((best[0] == best[1]).double().mean()) if best else None,
    )


def _rows(batches: Sequence[Outputs], place: int) -> torch.Tensor:
    """An output of all batches: [samples, numbers of each]."""
    return torch.cat(
        [batch[place].reshape(len(batch[place]) if batch[place].dim() else 1, -1) for batch in batches]
    )


def _nothing_alike(precision: str, samples: int) -> Agreement:
    """Outputs of another shape, or that are no numbers."""
    return Agreement(reference=REFERENCE, samples=samples, bound=BOUNDS[precision], equal=0.0)


def disagreement(agreement: Agreement, precision: str) -> str | None:
    """Why outputs are not those of the reference, or None."""
    if agreement.relative_rms is None and agreement.equal == 0:
        return f"no output is that of {REFERENCE}: they have other shapes, are no numbers, or all differ"
    if agreement.relative_rms is not None and agreement.relative_rms > agreement.bound:
        return (
            f"the outputs are not those of {REFERENCE}: they differ by {agreement.relative_rms:.2g} of their "
            f"size (root mean square), {agreement.bound:g} is the bound of {precision}"
        )
    if agreement.equal is not None and agreement.equal < EQUAL[precision]:
        return (
            f"the outputs are not those of {REFERENCE}: {agreement.equal:.1%} are the same, at least "
            f"{EQUAL[precision]:.0%} is the bound of {precision}"
        )
    return None
