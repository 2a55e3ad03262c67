"""Training throughput: a Job becomes a step that trains a network, for the measuring loop to time."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from accelmark.engines.pytorch import (
    TorchDevice,
    autocast,
    compile_module,
    set_precision,
    start_momentum,
)
from accelmark.engines.tree import placed
from accelmark.errors import DivergedError, UnsupportedError
from accelmark.job import Job, Settings
from accelmark.measure.loop import Group, measure
from accelmark.networks import registry
from accelmark.networks.base import Network
from accelmark.networks.sharding import divided
from accelmark.scenarios.outcome import OnWindow, Outcome
from accelmark.scenarios.watch import Watch, two_steps

#: Different batches that the steps rotate over: more than one, so that nothing is computed once and kept, and
#: few, so that their memory does not count against the batch size.
BATCHES = 2
#: Without so many steps nobody can say whether the loss falls.
MIN_STEPS_TO_LEARN = 10


def run(
    network: Network,
    job: Job,
    settings: Settings,
    device: TorchDevice,
    group: Group,
    on_window: OnWindow,
) -> Outcome:
    """Measure a Job's training in this process, on this rank; rank 0's outcome is the one that counts."""
    watch = Watch(device, group)
    step = TrainingStep(network, job, device, group.rank, group.size)
    with watch:
        measurement = measure(
            step,
            device,
            budget_s=settings.process_budget_s(),
            target=settings.target,
            window_s=settings.window_s,
            group=group,
            check=step.check_finite,
            on_start=watch.start,
            on_window=on_window,
        )
        watch.stop()
    first, now, too_few = step.learnt(lambda value: _mean_over_ranks(group, value))
    return watch.outcome(
        measurement,
        f"{network.unit}/s",
        settings,
        reasons=(too_few,) if too_few else (),
        parameters=step.parameters,
        padding_share=step.padding_share,
        loss_first=first,
        loss_last=now,
    )


def trial(network: Network, job: Job, device: TorchDevice, group: Group) -> Outcome:
    """Two steps, to see whether a batch fits: the second has the optimiser's state and its peak."""
    step = TrainingStep(network, job, device, group.rank, group.size)
    outcome = two_steps(lambda: step, device, group)
    step.check_finite()
    return outcome


def _mean_over_ranks(group: Group, value: float) -> float:
    values = [rank[0] for rank in group.exchange((value,))]
    return math.fsum(values) / len(values)


class TrainingStep:
    """One optimiser step of a network, data parallel over the ranks if there are several.

    Tables that a network divides over the ranks are the exception: each rank holds and trains its share.

    Calling it submits the work and returns the units that it processes, counted from shapes: no step waits
    for the device. Batches lie on the device already; feeding them is measured elsewhere.
    """

    def __init__(
        self, network: Network, job: Job, device: TorchDevice, rank: int = 0, ranks: int = 1
    ) -> None:
        self.network = network
        self.precision = job.precision or "fp32"
        self.device_type = device.torch_device.type
        self.accumulation = int(job.parameters.get("gradient_accumulation", 1))
        self.ranks = ranks
        config = registry.configuration(network, job)
        batch_size = job.batch_size or config.batch_size
        config = dataclasses.replace(config, batch_size=batch_size)
        if batch_size < network.least_batch_size:
            raise UnsupportedError(f"{network.name} trains on batches of {network.least_batch_size} and more")

        set_precision(self.precision)
        torch.manual_seed(job.seed)
        module = network.build_share(config, rank, ranks) if ranks > 1 else network.build(config)
        module.train()
        tables = divided(module)
        if tables and network.clip_gradient_norm is not None:
            raise UnsupportedError(f"{network.name} clips gradients that several accelerators hold")
        #: Of the whole network, wherever they are.
        self.parameters = sum(parameter.numel() for parameter in module.parameters())
        self.parameters += sum(table.elsewhere for table in tables.values())
        memory_format = torch.channels_last if network.channels_last else torch.preserve_format
        module = module.to(device=device.torch_device, memory_format=memory_format)
        self.optimizer = network.optimizer(module, config)
        if self.precision == "fp16":
            start_momentum(self.optimizer)
        self.ddp: DistributedDataParallel | None = None
        if ranks > 1:
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
                module, [f"{name}.weight" for name in tables]
            )
            module = self.ddp = DistributedDataParallel(
                module,
                device_ids=[device.torch_device] if self.device_type == "cuda" else None,
                find_unused_parameters=network.find_unused_parameters,
                gradient_as_bucket_view=True,
            )
        # Compiled outside of DDP, so that the compiler splits its graph at DDP's buckets and gradients still
        # travel while the backward pass runs.
        self.module: nn.Module = compile_module(module, job.engine or "eager")
        # What overflows in one rank's share must make all ranks leave the step out.
        scaler = ShardedGradScaler if tables else torch.amp.GradScaler
        self.scaler = scaler(self.device_type, enabled=self.precision == "fp16")

        # Every rank trains on its own data and all ranks start from the same weights.
        generator = torch.Generator().manual_seed(job.seed * 1000 + rank)
        batches = [network.batch(config, batch_size, generator) for _ in range(BATCHES)]
        self.units = [network.units(batch) for batch in batches]
        padded = sum(network.padded_units(batch) for batch in batches)
        #: How many of the units computed are padding; `None` where the network pads nothing.
        self.padding_share = 1 - sum(self.units) / padded if padded > sum(self.units) else None
        self.batches = [placed(batch, device.torch_device, memory_format) for batch in batches]
        self.micro_steps = 0
        self.steps = 0
        self.state: Any = None
        self.last_loss: torch.Tensor | None = None
        self.first_loss: torch.Tensor | None = None

    def __call__(self) -> float:
        """Submit one optimiser step; the units of its micro-batches on this rank."""
        units = 0
        self.optimizer.zero_grad(set_to_none=True)
        for micro in range(self.accumulation):
            index = self.micro_steps % BATCHES
            last = micro == self.accumulation - 1
            with self._without_all_reduce(not last), autocast(self.precision, self.device_type):
                loss, self.state = self.network.loss(self.module, self.batches[index], self.state)
            with self._without_all_reduce(not last):
                self.scaler.scale(loss / self.accumulation).backward()
            self.micro_steps += 1
            units += self.units[index]
        if self.network.clip_gradient_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.network.clip_gradient_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.steps += 1
        self.last_loss = loss.detach()
        if self.first_loss is None:
            self.first_loss = self.last_loss
        return float(units)

    def _without_all_reduce(self, active: bool) -> contextlib.AbstractContextManager[None]:
        if active and self.ddp is not None:
            quiet: contextlib.AbstractContextManager[None] = self.ddp.no_sync()
            return quiet
        return contextlib.nullcontext()

    def check_finite(self) -> None:
        """Raise `DivergedError` unless the last loss is a number; waits for the device."""
        if self.last_loss is not None:
            value = float(self.last_loss)
            if not math.isfinite(value):
                raise DivergedError(f"the loss is {value} after {self.steps} steps")

    def learnt(self, average: Callable[[float], float]) -> tuple[float, float, str | None]:
        """Loss of the sample batch at the first step and now, and why it cannot be judged if so.

        `average` takes the mean over ranks, so that all ranks judge alike. Raises `DivergedError` if the loss
        did not fall: such a step may compute anything.
        """
        if self.first_loss is None:
            raise ValueError("no step was run")
        with torch.no_grad(), autocast(self.precision, self.device_type):
            loss, _ = self.network.loss(self.module, self.batches[0], None)
        first, now = average(float(self.first_loss)), average(float(loss))
        if self.steps < MIN_STEPS_TO_LEARN:
            return first, now, f"{self.steps} steps are too few to see whether the network learns"
        if not now < first:
            raise DivergedError(
                f"the loss on the sample batch did not fall: {first:.4g} at the first step, "
                f"{now:.4g} after {self.steps}"
            )
        return first, now, None
