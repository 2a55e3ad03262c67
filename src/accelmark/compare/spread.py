"""How sure a Record's figure is, as random draws, and the interval of what is formed of several figures.

A parametric bootstrap on the logarithm (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 6):
each draw is the figure's logarithm plus its standard error times a normal number. Resampling three processes
as they are would give an interval that holds the truth in three cases of four only. That few processes know
their own scatter badly is made good at the end: the quantiles are widened by Student's t, with the degrees of
freedom of Welch and Satterthwaite (Biometrika 34, 1947) over all Records that take part.

Runs of a set that time to train is scored from are resampled themselves, since their score, with the best and
the worst dropped, has no simple standard error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelmark import conclude, stats
from accelmark.record import Record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: So many draws put a quantile's own error at a few percent of the interval's width.
DRAWS = 4000
NORMAL = 1.959964
#: Stands for as many degrees of freedom as make no difference.
MANY = 1000.0
#: An interval from a hundredth to a hundred times the figure says nothing.
USELESS = math.log(100)


@dataclass(frozen=True)
class Spread:
    """Draws of the logarithm of a figure, less that of the figure itself; and degrees of freedom."""

    draws: npt.NDArray[np.float64]
    degrees: float


def throughput(record: Record) -> Spread | None:
    """The spread of a Record's throughput; `None` where nothing says how sure it is."""
    metric = record.metrics.throughput
    if metric is None or metric.ci95 is None:
        return None
    groups = conclude.by_process(record.samples.windows)
    samples = len(groups) if len(groups) > 1 else sum(map(len, groups))
    degrees = samples - 1 if samples > 1 else MANY
    # The wider side: an interval that was cut at zero would otherwise look narrower than it is.
    half = max(metric.ci95[1] - metric.value, metric.value - metric.ci95[0]) / metric.value
    normal = _generator(record, "throughput").standard_normal(DRAWS)
    return Spread(half / _quantile(degrees) * normal, degrees)


def time_to_train(record: Record) -> Spread | None:
    """The spread of a set's score in minutes; `None` without the runs that it is scored from."""
    import numpy as np

    runs = [run.minutes for run in record.samples.runs]
    score = record.metrics.time_to_train_min
    if len(runs) < 3 or score is None:
        return None
    generator = _generator(record, "time to train")
    # A failed run is slower than any other.
    values = np.array([math.inf if minutes is None else minutes for minutes in runs])
    drawn = np.sort(generator.choice(values, size=(DRAWS, len(values))), axis=1)[:, 1:-1].mean(axis=1)
    # A draw with two failed runs has no score; how often that would happen is not what the interval is of.
    finite = drawn[np.isfinite(drawn)]
    if not finite.size:
        return None
    # The mean of n - 2 runs, resampled, scatters too little by the usual factor.
    few = math.sqrt(len(runs) / (len(runs) - 1))
    return Spread(few * np.log(generator.choice(finite, size=DRAWS) / score), len(runs) - 1)


def interval(value: float, parts: Mapping[str, tuple[float, Spread]]) -> tuple[float, float] | None:
    """The 95 % interval of a product of powers of figures; `None` where it would span orders of magnitude.

    `parts` holds each Record's power in it (1 above a line, -1 below) and its spread, by the Record's id.
    """
    import numpy as np

    total = np.zeros(DRAWS)
    variances = []
    for power, spread in parts.values():
        total += power * spread.draws
        variances.append((float(power * power * spread.draws.var()), spread.degrees))
    together = math.fsum(variance for variance, _ in variances)
    if together == 0:
        return value, value
    degrees = together**2 / math.fsum(variance**2 / degrees for variance, degrees in variances)
    widen = _quantile(min(degrees, MANY)) / NORMAL
    low, high = (widen * float(quantile) for quantile in np.quantile(total, (0.025, 0.975)))
    if max(-low, high) > USELESS:
        return None
    return value * math.exp(low), value * math.exp(high)


def _quantile(degrees: float) -> float:
    return NORMAL if degrees >= MANY else stats.t_quantile(degrees)


def _generator(record: Record, what: str) -> np.random.Generator:
    """Random numbers of a Record's own: the same in each run and each order, and independent of others'."""
    import numpy as np

    digest = hashlib.sha256(f"{what}\0{record.id}".encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
