"""Writes `catalog.json` from the network files: `python -m accelmark.networks.catalog`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from accelmark import networks
from accelmark.networks import registry
from accelmark.networks.base import CHOICES, Config, Network
from accelmark.networks.registry import CatalogEntry, SizeEntry

PATH = Path(__file__).with_name("catalog.json")

aten = torch.ops.aten
#: What draws weights and dropout.
RANDOM = (aten.normal_, aten.uniform_, aten.bernoulli_)


def discover() -> list[Network]:
    """Every network of the package by name, found by importing all files of its subpackages."""
    for package in pkgutil.iter_modules(networks.__path__, networks.__name__ + "."):
        if package.ispkg:
            path = importlib.import_module(package.name).__path__
            for file in pkgutil.iter_modules(path, package.name + "."):
                importlib.import_module(file.name)
    return [network for _, network in sorted(registry._registered.items())]


def parameter_count(module: nn.Module) -> int:
    """Elements of all parameters; a tensor used in two places counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def on_device(tree: Any, device: str) -> Any:
    """A batch with its tensors moved."""
    if isinstance(tree, torch.Tensor):
        return tree.to(device)
    if isinstance(tree, dict):
        return {key: on_device(value, device) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(on_device(value, device) for value in tree)
    return tree


class WithoutProducts(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped to mypy here
    """Answers every operation that has a FLOP count with zeros of the right shape.

    All else is computed, so shapes that depend on values come out, and the same on every processor: no
    rounding decides which proposal a detector keeps. Weights are then never read, so they are not drawn
    either and take no memory; nor is dropout.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in RANDOM:
            return args[0]
        if func.overloadpacket not in flop_registry:
            return func(*args, **(kwargs or {}))
        shapes = func(*on_device(args, "meta"), **on_device(kwargs or {}, "meta"))
        return zeros_like(shapes)


def zeros_like(tree: Any) -> Any:
    """CPU tensors of zeros in the shapes of tensors without values."""
    if isinstance(tree, torch.Tensor):
        return torch.zeros(tree.shape, dtype=tree.dtype, device="cpu")
    if isinstance(tree, tuple | list):
        return type(tree)(zeros_like(value) for value in tree)
    return tree


def convolution_backward_flops(
    gradient: Sequence[int],
    inputs: Sequence[int],
    weight: Sequence[int],
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Sequence[bool],
    **_: Any,
) -> int:
    """Operations of a convolution's backward pass: the gradients of input and weight cost what forward costs.

    Shapes as of `aten.convolution_backward`. torch's own count takes the weight's gradient of a convolution
    in groups as if there were none, which is a factor of 32 for ResNeXt's and of the channels for depthwise
    ones.
    """
    # Each element of the side that is multiplied out meets one filter of [channels / groups, *kernel].
    side = inputs if transposed else gradient
    once: int = 2 * math.prod(side) * math.prod(weight[1:])
    return once * (wanted[0] + wanted[1])


@torch.library.impl("aten::_ctc_loss_backward", "Meta")  # type: ignore[untyped-decorator]
def ctc_gradient_without_values(gradient: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    """The shape of what CTC's backward pass gives, which torch does not say for tensors without values."""
    return torch.empty_like(scores)


class Kept:
    """Counts what forward keeps for backward, in bytes; weights do not count, and nothing counts twice."""

    def __init__(self, module: nn.Module) -> None:
        self.bytes = 0
        # The storages are held, so that no other takes the place of a freed one.
        storages = [tensor.untyped_storage() for tensor in module.state_dict().values()]
        self._seen = {storage._cdata: storage for storage in storages}
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = storage
            self.bytes += storage.nbytes()
        return tensor


#: How many steps of a network that makes many are counted, at least; the line is drawn on from there.
FEW_STEPS = 8


def count(network: Network, config: Config, device: str, samples: int) -> tuple[float, float]:
    """Operations of one training step, and bytes that forward keeps for backward."""
    torch.manual_seed(0)
    batch = on_device(network.batch(config, samples, torch.Generator().manual_seed(0)), device)
    # oneDNN's LSTM is no product that could be counted; torch's own is made of some.
    cpu = torch.backends.mkldnn.flags(enabled=False) if device == "cpu" else contextlib.nullcontext()
    with cpu, WithoutProducts() if device == "cpu" else contextlib.nullcontext():
        with torch.device(device):
            module = network.build(config)
        steps = network.steps(batch)
        if steps is not None and steps > 2 * FEW_STEPS:
            few, many = (
                count_batch(network, module, network.first_steps(batch, n * FEW_STEPS)) for n in (1, 2)
            )
            further = (steps - FEW_STEPS) / FEW_STEPS
            return few[0] + further * (many[0] - few[0]), few[1] + further * (many[1] - few[1])
        return count_batch(network, module, batch)


def count_batch(network: Network, module: nn.Module, batch: Any) -> tuple[float, float]:
    """Operations and kept bytes of a batch like all others."""
    flops, kept, state = count_step(network, module, batch, None)
    if state is not None:
        # The first step of a recurrent network has no past to attend to; the second is like all others.
        flops, kept, _ = count_step(network, module, batch, state)
    return flops, kept


def count_step(network: Network, module: nn.Module, batch: Any, state: Any) -> tuple[float, float, Any]:
    """Operations and kept bytes of one step, and the state that it leaves."""
    kept = Kept(module)
    backward = {aten.convolution_backward: convolution_backward_flops}
    counter = FlopCounterMode(display=False, custom_mapping=backward)
    with counter:
        with kept.hooks:
            loss, state = network.loss(module, batch, state)
        loss.backward()
    return float(counter.get_total_flops()), float(kept.bytes), state


@dataclass(frozen=True)
class Cost:
    """What training takes: operations for each sample, and bytes kept for each and for any number."""

    flops: float
    kept: float
    kept_once: float


def cost(network: Network, config: Config) -> Cost:
    """What training on a sample takes.

    Counted on the meta device, where nothing is computed, for two numbers of samples. Networks whose shapes
    depend on their values run on the CPU, without the products and for one sample; what samples share
    (Transformer-XL's position projections) is below 4 %.
    """
    # Batch normalisation refuses a single value per channel, which one sample gives at a map of one cell; and
    # sentences differ in length, so that only a batch of the usual size has the usual mix.
    samples = max(2, config.batch_size if network.domain in ("language", "speech") else 2)
    try:
        flops, few = count(network, config, "meta", samples)
        _, many = count(network, config, "meta", 2 * samples)
    except RuntimeError:
        flops, kept = count(network, config, "cpu", 1)
        return Cost(flops, kept, 0.0)
    kept = (many - few) / samples
    return Cost(flops / samples, kept, max(0.0, few - samples * kept))


def optimizer_share(network: Network) -> float:
    """How much the optimiser keeps relative to the parameters; measured on the tiny size."""
    config = network.sizes["tiny"]
    module = network.build(config)
    optimizer = network.optimizer(module, config)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    kept = [x for state in optimizer.state.values() for x in state.values() if isinstance(x, torch.Tensor)]
    return float(sum(x.nbytes for x in kept if x.ndim) / sum(p.nbytes for p in module.parameters()))


def rounded(value: float) -> float:
    """A figure to four significant digits."""
    return float(f"{value:.4g}")


def size_entry(network: Network, config: Config) -> SizeEntry:
    """One size, built without memory for its parameters and counted."""
    with torch.device("meta"):
        module = network.build(config)
    parameters = parameter_count(module)
    # A table's gradient that holds only the rows looked up is as nothing beside the table.
    sparse = sum(each.weight.numel() for each in module.modules() if getattr(each, "sparse", False))
    taken = cost(network, config)
    return SizeEntry(
        batch_size=config.batch_size,
        sequence_length=config.sequence_length,
        parameters=parameters,
        published_parameters=config.parameters,
        flops_per_sample=rounded(taken.flops),
        # In single precision.
        state_bytes=rounded(4 * parameters * (1 + optimizer_share(network)) + taken.kept_once),
        gradient_bytes=rounded(4 * (parameters - sparse)),
        kept_bytes_per_sample=rounded(taken.kept),
        table_rows=getattr(config, "table_rows", []),
        table_width=getattr(config, "table_width", 0),
    )


def catalog_entry(network: Network) -> CatalogEntry:
    """A network with all its sizes."""
    return CatalogEntry(
        name=network.name,
        module=type(network).__module__,
        title=network.title,
        domain=network.domain,
        task=network.task,
        unit=network.unit,
        inference_unit=network.inference_unit or network.unit,
        dataset=network.dataset,
        quality_metric=network.quality.metric,
        quality_target=network.quality.target,
        paper=network.paper,
        reference=network.reference,
        version=network.version,
        scenarios=list(network.scenarios),
        tasks=dict(network.tasks),
        choices=[name for name in CHOICES if hasattr(network.sizes["full"], name)],
        sizes={name: size_entry(network, config) for name, config in network.sizes.items()},
    )


def generate() -> list[CatalogEntry]:
    """The catalog of the network files as they are."""
    threads = torch.get_num_threads()
    # Without the products there is nothing worth sharing, and on a busy machine threads wait for each other.
    torch.set_num_threads(1)
    try:
        return [catalog_entry(network) for network in discover()]
    finally:
        torch.set_num_threads(threads)


def render(entries: Iterable[CatalogEntry]) -> str:
    """The text of `catalog.json`."""
    return json.dumps([entry.model_dump() for entry in entries], indent=2, ensure_ascii=False) + "\n"


def read(path: Path) -> list[CatalogEntry]:
    """The catalog in a file; none where there is none or it cannot be read as one."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return [CatalogEntry.model_validate(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    return []


def main(arguments: list[str] | None = None, write: Callable[[str], Any] = sys.stdout.write) -> int:
    """Write the catalog, say whether it is current (`--check`), or print that of another file (`--file`)."""
    parser = argparse.ArgumentParser(prog="python -m accelmark.networks.catalog", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the file is out of date")
    parser.add_argument("--file", type=Path, help="print the networks of a file outside the package")
    options = parser.parse_args(arguments)
    if options.file:
        write(render(catalog_entry(network) for network in registry.import_file(options.file).values()))
        return 0
    entries = generate()
    if options.check:
        current = read(PATH) == entries
        write("catalog.json is current\n" if current else "catalog.json is out of date: run `make catalog`\n")
        return 0 if current else 1
    PATH.write_text(render(entries), encoding="utf-8")
    write(f"{PATH.name}: {len(entries)} networks\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
