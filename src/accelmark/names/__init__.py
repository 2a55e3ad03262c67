"""One canonical name for each board, server, data set, unit and precision, whatever a source calls it.

The names and their other spellings are in TOML files beside this one. Spellings are compared without case,
punctuation, vendor and anything in brackets, so only real differences are listed. A name that is not known
stays as it is: `None` would lose what the source says.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

_BRACKETS = re.compile(r"\([^)]*\)")
_VENDORS = re.compile(r"\b(nvidia|geforce|tesla|quadro)\b", re.IGNORECASE)


def board(text: str) -> str:
    """The board's canonical name: `A100-SXM4-80GB` for `NVIDIA A100-SXM-80GB`, `A100 SXM 80GB` and so on."""
    return _canonical("boards", text)


def server(text: str) -> str:
    """The server's canonical name: `Gigabyte G482-Z52-00` for `GIGABYTE G482-Z52-00`."""
    return _canonical("servers", text)


def dataset(text: str) -> str:
    """The data set's canonical name: `ImageNet2012` for `Imagenet2012` and `ImageNet`."""
    return _canonical("datasets", text)


def unit(text: str) -> str:
    """The unit of a throughput or efficiency: `images/s` for `images/sec`, `samples/s/W` for its `/watt`."""
    return _canonical("units", text)


def precision(text: str) -> str:
    """The precision in the words of `accelmark.job`: `fp16` for `Mixed`, `int8` for `INT8`."""
    return _canonical("precisions", text)


def framework(text: str) -> str:
    """The framework's name, without its version: `tensorflow` for `Tensorflow`."""
    return _canonical("frameworks", text)


def _key(text: str) -> str:
    plain = _VENDORS.sub("", _BRACKETS.sub("", text))
    return "".join(character for character in plain.casefold() if character.isalnum())


def _canonical(kind: str, text: str) -> str:
    return _spellings(kind).get(_key(text), text)


@functools.cache
def _spellings(kind: str) -> Mapping[str, str]:
    names: Mapping[str, Any] = read("boards") if kind == "boards" else read("spellings")[kind]
    found = {}
    for name, value in names.items():
        others = value.get("spellings", []) if isinstance(value, Mapping) else value
        for spelling in (name, *others):
            found[_key(spelling)] = name
    return found


@functools.cache
def read(name: str) -> Mapping[str, Any]:
    """One of the TOML files of this package."""
    text = resources.files("accelmark.names").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
