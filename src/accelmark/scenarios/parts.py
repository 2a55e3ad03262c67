"""A machine in equal parts, each running a copy of the network: what each part did, and all of them together.

Each rank of the measuring group is a part. They begin a window together and each counts the same number of
calls, while all of them go on until the last one has counted its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from accelmark import conclude
from accelmark.measure.loop import Group
from accelmark.record import Calls, Part, Throughput, Window


def common_window(window: Window) -> Window:
    """A window with the units that all parts together did in its time, each at its own rate.

    The units that were counted are equal for all parts, but a fast part had counted its own earlier; taking
    them over the time of the slowest would lose what the others did in the rest of it.
    """
    if not window.rank_seconds:
        return window
    each = window.units / len(window.rank_seconds)
    rate = math.fsum(each / seconds for seconds in window.rank_seconds)
    return window.model_copy(update={"units": rate * window.seconds})


def calls_of_all(group: Group, mine: Calls) -> Calls:
    """The calls of all parts, with the part's number as their stream."""
    most = int(max(count for (count,) in group.exchange((float(len(mine.ms)),))))
    padded = (*mine.ms, *[math.nan] * (most - len(mine.ms)))
    pairs = [
        (part, ms) for part, times in enumerate(group.exchange(padded)) for ms in times if not math.isnan(ms)
    ]
    return Calls(process=[0] * len(pairs), stream=[part for part, _ in pairs], ms=[ms for _, ms in pairs])


def parts_of(group: Group, windows: Sequence[Window], calls: Calls, alone: Throughput) -> list[Part]:
    """Each part's throughput together with the others (of `windows` as the loop measured them) and alone."""
    parts = []
    ends = alone.ci95 or (math.nan, math.nan)
    for i, (value, low, high, n) in enumerate(group.exchange((alone.value, *ends, float(alone.n or 1)))):
        own = [
            window.model_copy(
                update={
                    "seconds": window.rank_seconds[i] if window.rank_seconds else window.seconds,
                    "units": window.units / group.size,
                }
            )
            for window in windows
        ]
        together = conclude.throughput(own, alone.unit)
        assert together is not None  # noqa: S101 - the loop measures three windows at least
        interval = None if math.isnan(low) else (low, high)
        parts.append(
            Part(
                name=f"part {i + 1} of {group.size}",
                throughput=together,
                alone=Throughput(value=value, unit=alone.unit, ci95=interval, n=int(n), processes=1),
                latency_ms=conclude.latency_of(calls, i),
            )
        )
    return parts


def with_power(parts: Sequence[Part], power_w: float) -> list[Part]:
    """The parts with their shares of the power of the whole, apportioned by throughput."""
    total = math.fsum(part.throughput.value for part in parts)
    return [part.model_copy(update={"power_w": power_w * part.throughput.value / total}) for part in parts]
