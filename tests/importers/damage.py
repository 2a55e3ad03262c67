"""Logs as they may be found: lines lost, doubled, out of order, in another encoding, cut off anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st


def damaged(data: st.DataObject, log: str, garbage: Sequence[bytes]) -> bytes:
    """The log with up to six of its lines dropped, doubled, encoded otherwise, or garbage put between."""
    found = log.encode().splitlines(keepends=True)
    if data.draw(st.booleans(), "shuffle"):
        found = data.draw(st.permutations(found), "order")
    for _ in range(data.draw(st.integers(0, 6), "edits")):
        place = data.draw(st.integers(0, len(found)), "place")
        match data.draw(st.sampled_from(["drop", "double", "garbage", "utf-16", "crlf"]), "edit"):
            case "drop":
                del found[place : place + 1]
            case "double":
                found[place:place] = found[place : place + 1]
            case "garbage":
                found.insert(place, data.draw(st.sampled_from(garbage), "garbage"))
            case "utf-16":
                found[place : place + 1] = [
                    line.decode("latin-1").encode("utf-16") for line in found[place : place + 1]
                ]
            case _:
                found[place : place + 1] = [line.rstrip(b"\n") + b"\r\n" for line in found[place : place + 1]]
    raw = b"".join(found)
    return raw[: data.draw(st.integers(0, len(raw)), "length")]
