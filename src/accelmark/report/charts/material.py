"""From Records to what a chart is drawn of: which of them, under which label, in what state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelmark import names
from accelmark.audit import Finding, doubts
from accelmark.compare import study
from accelmark.compare.conditions import HOW_CHOSEN
from accelmark.job import Scalar
from accelmark.record import USABLE, Record, Source, Status
from accelmark.text import safe

Interval = tuple[float, float]

MAX_LABEL = 60
#: More series than this nobody tells apart.
MAX_SERIES = 40
#: A browser counts in doubles, and no batch, stream or accelerator count is as large.
MAX_NUMBER = 1e15

_WORDS = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "MXNet", "tensorrt": "TensorRT"}
#: Conditions that a label always may name; others only where two labels would be the same without.
_MAIN = ("accelerators", "size", "partition", "precision", "framework", "engine", "batch", "sequence", "task")


_TASKS = {"squad": "SQuAD", "pre-training-mlperf": "pre-training by MLPerf"}


@dataclass(frozen=True)
class Material:
    """The usable Records, and by Record id the gravest doubt that the audit has of it."""

    records: tuple[Record, ...]
    doubts: Mapping[str, str] = field(default_factory=dict)

    def of(self, *scenarios: str) -> list[Record]:
        """The Records of these scenarios."""
        return [record for record in self.records if record.job.scenario in scenarios]


@dataclass(frozen=True)
class Point:
    """A figure of a Record, against something else of it."""

    record: Record
    x: float
    y: float
    ci95: Interval | None = None


def material(records: Iterable[Record], findings: Iterable[Finding] = ()) -> Material:
    """Records whose figures are results, with the doubts that are more than notes."""
    gravest = {identity: found[0].rule for identity, found in doubts(findings).items()}
    return Material(tuple(record for record in records if record.status in USABLE), gravest)


def cut(text: object, limit: int = MAX_LABEL) -> str:
    """Text from a Record, harmless and short."""
    # Cut before it is made safe too: a megabyte need not be looked at character by character.
    shown = safe(str(text)[: limit + 1])
    if shown == "__proto__":
        # Vega keeps categories as keys of JavaScript objects, where this one is taken.
        return '"__proto__"'
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def word(name: str) -> str:
    """A framework or engine as people write it."""
    return _WORDS.get(name, cut(name))


def network_title(record: Record) -> str:
    """The network as people write it, with its size where that is neither the published one nor tiny."""
    entry: Mapping[str, str] = names.read("networks").get(record.job.network, {})
    title = cut(entry.get("title", record.job.network))
    return title if record.job.size in ("full", "tiny") else cut(f"{title}, {cut(record.job.size, 20)}")


def work(record: Record) -> str:
    """The network and what it is used for."""
    task = record.job.parameters.get("task")
    if not task:
        return network_title(record)
    return cut(f"{network_title(record)}, {_TASKS.get(str(task), str(task)[:40].replace('-', ' '))}")


def odd_size(record: Record) -> str | None:
    """The size, where it is neither the published one nor tiny, which is said elsewhere."""
    return None if record.job.size in ("full", "tiny") else record.job.size


def by(records: Iterable[Record], *parts: Callable[[Record], object]) -> list[list[Record]]:
    """Records in groups by what functions say of them, in order of appearance; tiny ones apart."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((is_tiny(record), *(part(record) for part in parts)), []).append(record)
    return list(groups.values())


def same_work(record: Record) -> tuple[object, ...]:
    """What a chart of one network holds together."""
    return record.job.network, odd_size(record), record.job.parameters.get("task")


def unit(record: Record) -> str | None:
    """The unit of the throughput."""
    return record.metrics.throughput.unit if record.metrics.throughput else None


def is_tiny(record: Record) -> bool:
    """Whether the Record's network is the small one for tests."""
    return record.job.size == "tiny"


def positive(value: Scalar | None) -> float | None:
    """A parameter as a number that a chart can place; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MAX_NUMBER:
        return None
    return float(value)


def newest(records: Iterable[Record], place: Callable[[Record], Key]) -> dict[Key, Record]:
    """The newest Record of each place, in the order in which places were first measured."""
    found: dict[Key, Record] = {}
    for record in sorted(records, key=lambda record: record.when):
        found[place(record)] = record
    return found


def state(record: Record) -> str:
    """`noisy` for figures that are, else `ok`."""
    return "noisy" if record.status == Status.NOISY else "ok"


Key = tuple[tuple[str, str], ...]


def key(record: Record, without: Iterable[str] = ()) -> Key:
    """Everything that makes one figure another thing than the next, as names and words.

    `without` names what is on an axis of the chart, or in its title.
    """
    job, skip = record.job, set(without)
    values: dict[str, str] = {"accelerator": cut(record.system.accelerator.name)}
    if job.accelerators != 1:
        values["accelerators"] = f"{job.accelerators}x"
    if job.size not in ("full", "tiny"):
        values["size"] = cut(job.size, 24)
    partition = _partition(record)
    if partition:
        values["partition"] = partition
    for name, value in (
        ("precision", job.precision),
        ("framework", word(job.framework) if job.framework else None),
        ("engine", word(job.engine) if job.engine not in (None, "eager") else None),
        ("batch", f"batch {job.batch_size}" if job.batch_size is not None else None),
        ("sequence", f"sequence {job.sequence_length}" if job.sequence_length is not None else None),
    ):
        if value:
            values[name] = cut(value, 32)
    for name, parameter in sorted(job.parameters.items()):
        if name not in HOW_CHOSEN and not (name == "instances" and partition):
            values[name] = cut(parameter if name == "task" else f"{name.replace('_', ' ')} {parameter}", 40)
    for name, condition in sorted(record.conditions.items()):
        if name not in HOW_CHOSEN:
            values.setdefault(name, cut(f"{name.replace('_', ' ')} {_yes_no(condition)}", 40))
    values["server"] = cut(record.system.server or "")
    values["system"] = cut(record.system.name)
    values["source"] = "published" if record.source == Source.PUBLISHED else record.source.value
    return tuple((name, value) for name, value in values.items() if value and name not in skip)


def _partition(record: Record) -> str | None:
    partition, instances = record.job.partition, record.job.parameters.get("instances")
    if not partition:
        return None
    return cut(f"{instances} × {partition}" if instances else partition, 24)


def _yes_no(value: Scalar) -> Scalar:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def labels(keys: Iterable[Key]) -> tuple[dict[Key, str], str]:
    """A label for each key, of what differs between them only, and what they have in common, as text."""
    found = {each: dict(each) for each in dict.fromkeys(keys)}
    every = dict.fromkeys(name for values in found.values() for name in values)
    varying = [name for name in every if len({values.get(name) for values in found.values()}) > 1]
    used = ["accelerator", *(name for name in _MAIN if name in varying)]
    for name in (name for name in varying if name not in used):
        texts = Counter(_join(values, used) for values in found.values())
        if len(texts) == len(found):
            break
        # Only what tells some of those apart that still look the same.
        if len({_join(values, [*used, name]) for values in found.values()}) > len(texts):
            used.append(name)
    shown: dict[Key, str] = {}
    taken: Counter[str] = Counter()
    for each, values in found.items():
        text = cut(_join(values, used))
        taken[text] += 1
        shown[each] = text if taken[text] == 1 else f"{cut(text, MAX_LABEL - 6)} #{taken[text]}"
    first = next(iter(found.values()), {})
    common = [name for name in ("accelerator", *_MAIN) if name in first and name not in varying]
    return shown, " · ".join(first[name] for name in common)


def _join(values: Mapping[str, str], used: Sequence[str]) -> str:
    return ", ".join(values[name] for name in used if name in values)


def quotient(record: Record, reference: Record) -> float:
    """A throughput over another."""
    return _pair(record, reference).values[0].value


def quotient_factors(record: Record, reference: Record) -> Interval | None:
    """By which factors a quotient of two throughputs may be off; `None` where an interval is missing."""
    row = _pair(record, reference)
    if row.ci95 is None or not row.average:
        return None
    return row.ci95[0] / row.average, row.ci95[1] / row.average


def _pair(record: Record, reference: Record) -> study.Row:
    # In two cells, since two Records of one cell would count as one.
    above, below = (study.Cell(side, 1, "", "", "") for side in ("above", "below"))
    return study.Row("", "", 1, "", "", (study.Value(above, record, below, reference),))


def left_out(count: int, one: str, several: str) -> str:
    """`3 older Records ... are not drawn`, or nothing."""
    return (
        f"{count} {one} is not drawn" if count == 1 else f"{count} {several} are not drawn" if count else ""
    )


def older(count: int) -> str:
    """What is said of Records that a newer one of the same conditions stands for."""
    return left_out(count, "older Record of the same conditions", "older Records of the same conditions")


def sentences(parts: Iterable[str]) -> str:
    """Notes as sentences, each once."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in dict.fromkeys(parts) if part)


def state_notes(records: Iterable[Record], doubts: Mapping[str, str]) -> list[str]:
    """Which of the drawn Records are noisy or in doubt."""
    drawn = list({record.id: record for record in records}.values())
    noisy = [record for record in drawn if record.status == Status.NOISY]
    doubtful = [record for record in drawn if record.id in doubts]
    notes = []
    if noisy:
        notes.append(f"hollow: noisy, the interval is wider than was asked for ({_ids(noisy)})")
    if doubtful:
        named = [f"{cut(record.id, 48)}: {cut(doubts[record.id], 40)}" for record in doubtful[:5]]
        more = f", and {len(doubtful) - 5} more" if len(doubtful) > 5 else ""
        notes.append(f"ringed: in doubt, by the audit ({'; '.join(named)}{more})")
    return notes


def _ids(records: Sequence[Record]) -> str:
    return ", ".join(cut(record.id, 48) for record in records[:5]) + (", …" if len(records) > 5 else "")
