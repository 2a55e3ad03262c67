"""What is compared, in one process, in blocks of steps that alternate A B B A, and what is said about it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from scipy import stats

from accelmark.job import Job
from accelmark.networks import registry
from accelmark.networks.base import Network


def full_size(name: str, batch_size: int | None, embedding_rows: int | None) -> tuple[Network, Any, Job]:
    """A network at full size, its configuration and the Job of training it; without a batch size a tenth.

    `embedding_rows` end the tables of networks that have such.
    """
    network = registry.load(name)
    ended = embedding_rows is not None and hasattr(network.sizes["full"], "embedding_rows")
    choices = {"embedding_rows": embedding_rows} if ended else {}
    config = network.configure("full", **choices)
    job = Job(
        network=name,
        size="full",
        batch_size=batch_size or max(network.least_batch_size, config.batch_size // 10),
        sequence_length=config.sequence_length,
        parameters=choices,
    )
    return network, config, job


def rate(step: Callable[[], float], seconds: float) -> float:
    """Units per second of whole rounds over two batches, at least one."""
    units, start = 0.0, time.perf_counter()
    while units == 0 or time.perf_counter() - start < seconds:
        units += step() + step()
    return units / (time.perf_counter() - start)


def alternate(
    first: Callable[[], float], second: Callable[[], float], pairs: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Units per second of both sides in so many pairs of blocks, after half a block of each."""
    sides = [(first, []), (second, [])]
    for step, _ in sides:
        rate(step, seconds / 2)
    for pair in range(pairs):
        # Which side goes first alternates too, so that a drift falls on both alike.
        for step, rates in sides if pair % 2 == 0 else reversed(sides):
            rates.append(rate(step, seconds))
    return sides[0][1], sides[1][1]


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """The order statistics between which the median lies with at least 95 % (David and Nagaraja, 7.1).

    Fewer than six values have none such; then these are the least and the largest.
    """
    ordered, n = sorted(values), len(values)
    lower = int(stats.binom.ppf(0.025, n, 0.5))
    return ordered[max(lower - 1, 0)], ordered[min(n - lower, n - 1)]


def columns(first: list[float], second: list[float], unit: str) -> str:
    """The end of a table's row: both medians, the median of the ratios, its interval, how many pairs."""
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    low, high = interval_of_median(ratios)
    return (
        f"{statistics.median(first):.4g} | {statistics.median(second):.4g} {unit}/s "
        f"| {statistics.median(ratios):.3f} | {low:.3f} to {high:.3f} | {len(ratios)} |"
    )
