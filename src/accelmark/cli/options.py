"""How options are read: lists, durations, batch sizes. Wrong ones become one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accelmark.errors import UsageError
from accelmark.job import Settings
from accelmark.run.suite import BatchRule, SuiteSettings

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def words(option: str, text: str | None) -> list[str] | None:
    """A list separated by commas, without doubles; `None` if the option was not given."""
    if text is None:
        return None
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise UsageError(f"{option} {text!r} has an empty item; write it like a,b,c.")
    return list(dict.fromkeys(found))


def counts(option: str, text: str | None) -> list[int] | None:
    """A list of whole numbers of at least 1."""
    found = words(option, text)
    return None if found is None else [_count(option, word) for word in found]


def batch_rules(text: str | None) -> list[BatchRule] | None:
    """A list of batch sizes: numbers, `default`, `max` or `best`."""
    found = words("--batch-size", text)
    if found is None:
        return None
    rules: list[BatchRule] = []
    for word in found:
        if word in ("default", "max", "best"):
            rules.append(word)
        elif word.isdecimal():
            rules.append(_count("--batch-size", word))
        elif (bound := re.fullmatch(r"under\s*(\d+(?:\.\d+)?)\s*ms", word)) and float(bound[1]) > 0:
            rules.append(f"under {bound[1]}ms")
        else:
            raise UsageError(
                f"--batch-size {word!r} is no batch size; give a number, default, max, best, or a bound of "
                f"inference like 'under 7ms'."
            )
    return rules


def seconds(option: str, text: str | None) -> float | None:
    """A duration like `5s`, `2m`, `1.5h` or plain seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _UNITS or float(match[1]) <= 0:
        raise UsageError(f"{option} {text!r} is no duration; write it like 5s, 2m or 1h.")
    return float(match[1]) * _UNITS[match[2]]


def share(option: str, text: str | None) -> float | None:
    """A share like `1%` or `0.01`, between 0 and 1."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise UsageError(f"{option} {text!r} is no share between 0 and 1; write it like 1% or 0.01.")
    return value


def settings(
    suites: Sequence[SuiteSettings], device: str | None, allow_emulated: bool, **given: float | None
) -> Settings:
    """Settings from the options that were given, else from the suites (the most careful), else the defaults.

    `given` has the keys `time_budget`, `target`, `repeats` and `timeout`; `None` was not given.
    """
    values: dict[str, object] = {"device": device, "allow_emulated": allow_emulated}
    for name, most_careful in (("time_budget_s", max), ("target", min), ("repeats", max)):
        wanted = [getattr(suite, name) for suite in suites if getattr(suite, name) is not None]
        if wanted:
            values[name] = most_careful(wanted)
    names = {"time_budget": "time_budget_s", "target": "target", "repeats": "repeats", "timeout": "timeout_s"}
    values |= {names[name]: value for name, value in given.items() if value is not None}
    return Settings.model_validate(values)


def _count(option: str, word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise UsageError(f"{option} {word!r} is no whole number of at least 1.")
    return int(word)
