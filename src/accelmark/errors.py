"""Everything that can go wrong for a user, each with an exit code of its own.

A message is one sentence that says what is wrong and what to do next. The command line prints it and
exits with the class's code; it never prints a traceback for these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

EXIT_OK = 0
EXIT_MEASUREMENT_FAILED = 1
EXIT_USAGE = 2
#: A guard (`compare --fail-below`) that cannot tell: a noisy Record, or no interval.
EXIT_INCONCLUSIVE = 3
EXIT_UNREADABLE = 4
EXIT_MISSING_LIBRARY = 5
EXIT_CANNOT_WRITE = 6
EXIT_INTERRUPTED = 130


class AccelmarkError(Exception):
    """Base of the errors that are told to the user as one sentence."""

    exit_code: ClassVar[int] = EXIT_MEASUREMENT_FAILED


class UsageError(AccelmarkError):
    """The user asked for something that does not exist or does not fit together."""

    exit_code = EXIT_USAGE


class UnreadableInputError(AccelmarkError):
    """A file that was given cannot be understood."""

    exit_code = EXIT_UNREADABLE


class MissingLibraryError(AccelmarkError):
    """A library that the request needs is not installed."""

    exit_code = EXIT_MISSING_LIBRARY


class CannotWriteError(AccelmarkError):
    """Results cannot be kept where the user wants them."""

    exit_code = EXIT_CANNOT_WRITE


class UnsupportedError(AccelmarkError):
    """This machine or software cannot run the Job; the Record becomes `unsupported` with this reason."""


class DivergedError(AccelmarkError):
    """The network's result is not finite or does not learn; the Record becomes `diverged`."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not known: what was meant, or everything there is."""
    names = sorted(known)
    by_lower = {known_name.lower(): known_name for known_name in names}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}."
    return UsageError(f"unknown {kind} {name!r}; {hint}")
