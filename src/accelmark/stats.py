"""Plain statistics of measured windows. No framework; every function says where it is from.

A window is a pair (units, seconds). Throughput is sum(units) / sum(seconds): a ratio of totals, never a mean
of rates, which would be biased upwards by every slow window that it undervalues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Pairs = Sequence[tuple[float, float]]
#: Batches of windows of one process whose means are taken as independent. Few and long ones see slow waves.
BATCHES = 5


@dataclass(frozen=True)
class Estimate:
    """Throughput with its 95 % interval; `low`/`high` are None where the data cannot give one."""

    value: float
    low: float | None
    high: float | None
    windows: int
    processes: int

    @property
    def relative_half_width(self) -> float:
        """Half the interval over the value; infinite without an interval."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2 / self.value


def t_quantile(degrees: float) -> float:
    """The 97.5 % quantile of Student's t distribution."""
    from scipy.special import stdtrit  # scipy.stats would take ten times as long to import

    return float(stdtrit(degrees, 0.975))


def ratio_and_error(pairs: Pairs) -> tuple[float, float | None]:
    """Ratio of totals and its standard error by linearisation.

    R = sum(u) / sum(t); the residuals e = u - R t have mean zero by construction, and
    se(R) = sqrt(n / (n - 1) * sum(e^2)) / sum(t) (Cochran, Sampling Techniques, 3rd ed., 1977, eq. 6.13).
    `None` with fewer than two pairs.
    """
    units = math.fsum(u for u, _ in pairs)
    seconds = math.fsum(t for _, t in pairs)
    ratio = units / seconds
    n = len(pairs)
    if n < 2:
        return ratio, None
    squares = math.fsum((u - ratio * t) ** 2 for u, t in pairs)
    return ratio, math.sqrt(n / (n - 1) * squares) / seconds


def autocorrelation_factor(pairs: Pairs) -> float:
    """By how much neighbouring windows of one process widen the standard error (at least 1).

    For a first-order autoregression the variance of the mean grows by (1 + r) / (1 - r) (Wilks, Statistical
    Methods in the Atmospheric Sciences, 2nd ed., 2006, sec. 5.2.4). The estimate of r is biased by about
    -(1 + 4 r) / n in short series (Kendall, Biometrika 41, 1954), which is put back first. Negative
    correlation is not used to narrow the interval.
    """
    n = len(pairs)
    if n < 6:
        return 1.0
    units = math.fsum(u for u, _ in pairs)
    seconds = math.fsum(t for _, t in pairs)
    residuals = [u - units / seconds * t for u, t in pairs]
    squares = math.fsum(e * e for e in residuals)
    if squares == 0:
        return 1.0
    raw = math.fsum(a * b for a, b in pairwise(residuals)) / squares
    # Capped: in ten windows an estimate near 1 is luck, and would widen the interval beyond all use.
    r = min(0.8, (raw + 1 / n) / max(0.1, 1 - 4 / n))
    return math.sqrt((1 + r) / (1 - r)) if r > 0 else 1.0


def throughput(processes: Sequence[Pairs]) -> Estimate:
    """Throughput and its interval over processes and windows.

    With two processes or more, each process is one observation (units and seconds summed over its windows):
    most of the variance lies between processes, windows of one process share its luck, and a
    t interval over the processes covers both without assuming how much of either there is. With one process
    the windows are the observations, and the interval is widened by their autocorrelation; it then says
    nothing about other processes.
    """
    used = [pairs for pairs in processes if pairs]
    windows = sum(len(pairs) for pairs in used)
    if not used:
        raise ValueError("throughput of no windows")
    if len(used) == 1:
        value, half = _one_process(used[0])
    else:
        value, half = _interval([_total(pairs) for pairs in used])
    if half is None:
        return Estimate(value, None, None, windows, len(used))
    return Estimate(value, max(0.0, value - half), value + half, windows, len(used))


def _interval(pairs: Pairs) -> tuple[float, float | None]:
    value, error = ratio_and_error(pairs)
    return value, None if error is None else t_quantile(len(pairs) - 1) * error


def _one_process(pairs: Pairs) -> tuple[float, float | None]:
    """The wider of two intervals: windows with their autocorrelation, and means of batches of windows.

    The first sees correlation between neighbours well and slow waves badly; batch means (Law & Kelton,
    Simulation Modeling and Analysis, 3rd ed., 2000, sec. 9.5.3) the other way round.
    """
    value, error = ratio_and_error(pairs)
    if error is None:
        return value, None
    factor = autocorrelation_factor(pairs)
    # Correlated windows are worth n / factor^2 independent ones, for the degrees of freedom too; as the
    # correlation is itself an estimate, no fewer than four where there are that many.
    degrees = max(min(4, len(pairs) - 1), round(len(pairs) / factor**2) - 1)
    half = t_quantile(degrees) * error * factor
    if len(pairs) >= 4 * BATCHES:
        edges = [round(i * len(pairs) / BATCHES) for i in range(BATCHES + 1)]
        _, wide = _interval([_total(pairs[a:b]) for a, b in pairwise(edges)])
        half = max(half, wide or 0.0)
    return value, half


def _total(pairs: Pairs) -> tuple[float, float]:
    return math.fsum(u for u, _ in pairs), math.fsum(t for _, t in pairs)


def proportion(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share, by its score (Wilson, JASA 22, 1927): sound near 0 and 1, and for few."""
    z = 1.959964
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / trials / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def is_settled(times: Sequence[float], tolerance: float) -> bool:
    """Whether the last windows have stopped changing: the end of warm-up.

    The two halves of `times` (seconds per step) are compared. They agree if their means differ by less than
    `tolerance` of the mean, or by less than twice the standard error that the scatter inside the halves
    gives: noise is no reason to wait, a trend is, because it lies between the halves and not inside them.
    """
    half = len(times) // 2
    if half < 2:
        return False
    first, second = times[:half], times[len(times) - half :]
    mean_first, mean_second = math.fsum(first) / half, math.fsum(second) / half
    difference = abs(mean_second - mean_first)
    if difference <= tolerance * (mean_first + mean_second) / 2:
        return True
    squares = math.fsum((t - mean_first) ** 2 for t in first)
    squares += math.fsum((t - mean_second) ** 2 for t in second)
    return difference <= 2 * math.sqrt(squares / (half - 1) / half)


def trend(times: Sequence[float], tolerance: float) -> float | None:
    """Relative change of the step time over the measurement if it drifts, else None.

    A drift is a Mann-Kendall trend (Mann, Econometrica 13, 1945) significant at 0.1 % whose size by Theil and
    Sen's slope (Sen, JASA 63, 1968) exceeds `tolerance` from first to last window: a tiny trend does
    no harm, and a large difference without a trend is noise, which the interval shows. The level is strict
    because neighbouring windows are not independent, which the test takes them to be.
    """
    n = len(times)
    if n < 6:
        return None
    score = sum((times[j] > times[i]) - (times[j] < times[i]) for i in range(n) for j in range(i + 1, n))
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(0, abs(score) - 1) / deviation
    # Seven windows in strict order have a chance of 2 / 7! by luck, which the normal approximation misses.
    in_order = n >= 7 and abs(score) == n * (n - 1) // 2
    if z < 3.291 and not in_order:
        return None
    slopes = sorted((times[j] - times[i]) / (j - i) for i in range(n) for j in range(i + 1, n))
    change = slopes[len(slopes) // 2] * (n - 1) / sorted(times)[n // 2]
    return change if abs(change) > tolerance else None


def percentile(values: Sequence[float], percent: float) -> float:
    """Percentile by linear interpolation between order statistics (Hyndman & Fan type 7, NumPy's default)."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


#: Values beyond a percentile that it takes to print it: with fewer, one more or less moves it a lot.
BEYOND = 5


def nearest_rank(ordered: Sequence[float], percent: float) -> float | None:
    """The nearest-rank percentile of ordered values, or `None` where fewer than `BEYOND` lie beyond it.

    The smallest value that `percent` of the values do not exceed: always one that was measured.
    """
    n = len(ordered)
    # In thousandths of a percent, because 99.9 is no binary fraction.
    rank = -(-n * round(percent * 1000) // 100_000)
    return ordered[rank - 1] if n - n * percent / 100 >= BEYOND - 1e-9 else None
