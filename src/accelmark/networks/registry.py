"""Which networks there are.

`catalog.json` holds every network's description, generated from the network files by `make catalog` and
kept current by a test. The parent process reads only that, so listing and planning never import a
framework; a worker imports the one file that it needs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from accelmark.errors import UnsupportedError, UsageError, unknown
from accelmark.job import Job, Model
from accelmark.networks.base import CHOICES, Config, Network


class SizeEntry(Model):
    """One size of a network in the catalog, for its default task.

    `parameters` is counted on the built module; `flops_per_sample` is per unit of the batch axis, forward and
    backward. `state_bytes` are of the weights and what the optimiser keeps, `gradient_bytes` of gradients,
    `kept_bytes_per_sample`, for each unit of the batch axis, of what forward keeps for backward in single
    precision. `table_rows` are of embedding tables that may end earlier and that several accelerators divide,
    with vectors of `table_width`.
    """

    batch_size: int
    sequence_length: int | None
    parameters: int
    published_parameters: int | None
    flops_per_sample: float
    state_bytes: float
    gradient_bytes: float
    kept_bytes_per_sample: float
    table_rows: list[int] = []
    table_width: int = 0


class CatalogEntry(Model):
    """A network in the catalog.

    `scenarios` are those that it is measured in. `tasks` hold the sequence length of each at full size, the
    default first; `choices` are the Job's parameters that its configuration has.
    """

    name: str
    module: str
    title: str
    domain: str
    task: str
    unit: str
    inference_unit: str
    dataset: str
    quality_metric: str
    quality_target: float
    paper: str
    reference: str
    version: int
    scenarios: list[str] = ["training", "inference"]
    tasks: dict[str, int | None] = {}
    choices: list[str] = []
    sizes: dict[str, SizeEntry]

    def counted(self, scenario: str) -> str:
        """What throughput counts in a scenario."""
        return {"speech-synthesis": "s of audio", "inference": self.inference_unit}.get(scenario, self.unit)

    def flops(self, job: Job) -> float | None:
        """Operations of training on one sample of a Job, if it is what the catalog counted."""
        return self.sizes[job.size].flops_per_sample if self._counted(job) else None

    def memory_gib(self, job: Job) -> float | None:
        """What a Job needs at least on each accelerator, if the Job is what the catalog counted.

        In mixed precision forward keeps half as much. Temporary results and the framework come on top. Of
        other scenarios only the weights are counted.
        """
        if job.batch_size is None or not self._counted(job):
            return None
        size = self.sizes[job.size]
        kept = size.kept_bytes_per_sample * job.batch_size
        if job.precision in ("fp16", "bf16"):
            kept /= 2
        most = job.parameters.get("embedding_rows")
        ended = sum(max(0, rows - int(most)) for rows in size.table_rows) if most is not None else 0
        if job.scenario != "training":
            return 4 * (size.parameters - ended * size.table_width) / 2**30
        elsewhere = (sum(size.table_rows) - ended) * (1 - 1 / job.accelerators)
        state = size.state_bytes - 4 * (ended + elsewhere) * size.table_width
        # Gradients come as what forward kept goes.
        return (state + max(kept, size.gradient_bytes)) / 2**30

    def _counted(self, job: Job) -> bool:
        task = job.parameters.get("task")
        own_task = task in (None, next(iter(self.tasks), None))
        return own_task and job.sequence_length == self.sizes[job.size].sequence_length


def configuration(network: Network, job: Job) -> Config:
    """A network's configuration as a Job asks for it, but for the batch size."""
    task = job.parameters.get("task")
    choices = {name: job.parameters[name] for name in CHOICES if name in job.parameters}
    return network.configure(job.size, str(task) if task else None, job.sequence_length, **choices)


_registered: dict[str, Network] = {}


def register(cls: type[Network]) -> type[Network]:
    """Make a network known by its name: the decorator of every network class."""
    if cls.name in _registered and type(_registered[cls.name]).__qualname__ != cls.__qualname__:
        raise ValueError(f"two networks are called {cls.name!r}")
    _registered[cls.name] = cls()
    return cls


@functools.cache
def catalog() -> Mapping[str, CatalogEntry]:
    """All networks of this build by name, without importing any."""
    text = resources.files("accelmark.networks").joinpath("catalog.json").read_text(encoding="utf-8")
    entries = [CatalogEntry.model_validate(entry) for entry in json.loads(text)]
    return {entry.name: entry for entry in entries}


def entry(name: str) -> CatalogEntry:
    """A network's description; an unknown name is a `UsageError` that says what was meant."""
    try:
        return catalog()[name]
    except KeyError:
        raise unknown("network", name, catalog()) from None


def load(name: str) -> Network:
    """The network itself; imports its file and with it the framework.

    An `UnsupportedError` says which library it needs if one is not installed.
    """
    try:
        importlib.import_module(entry(name).module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("accelmark"):
            raise
        raise UnsupportedError(
            f"{name} needs {error.name}, which is not installed: pip install 'accelmark[pytorch]'"
        ) from None
    return _registered[name]


def load_file(path: Path, name: str) -> Network:
    """A network from a file outside the package, which the user named on the command line."""
    networks = import_file(path)
    if name not in networks:
        raise unknown("network", name, networks)
    return networks[name]


def import_file(path: Path) -> dict[str, Network]:
    """Execute a network file and return the networks that it registers."""
    spec = importlib.util.spec_from_file_location(f"accelmark_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    before = set(_registered)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name while they are made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = {name: network for name, network in _registered.items() if name not in before}
    if not found:
        raise UsageError(f"{path} registers no network; decorate its class with @register")
    return found
