"""`accelmark compare`: Records beside each other, one's own and the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files of Records, as `accelmark run` keeps them.")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="published|SET|PATH",
            help="Pair each Record with these: all published rows, one set, or other Records. Repeatable.",
        ),
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            metavar="a,b", help="Conditions that may differ, such as batch_size; the output says so."
        ),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A YAML file of prices: currency, date, per, prices by board.")
    ] = None,
    fail_below: Annotated[
        float | None,
        typer.Option(
            min=0, help="Exit 1 if a ratio's whole interval is below this; 3 if that cannot be told."
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(help="Repeat a published study, such as lambda-2021-08: its reference, groups, mean."),
    ] = None,
    normalize_to: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM:PRECISION",
            help="What throughputs are divided by: one accelerator of it. 32-bit and mixed will do.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NETWORK,...",
            help="Networks to average over; NETWORK@SIZE for one of several sizes. May be repeated.",
        ),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="How groups are averaged: geometric, or arithmetic as in the study.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare Records pair by pair (--with), or systems by averages over groups of networks."""
    from accelmark.cli.comparison import Wanted, print_comparison
    from accelmark.cli.options import words
    from accelmark.cli.pairing import print_pairing
    from accelmark.errors import UsageError

    allowed = words("--allow", allow) or []
    if beside and not (normalize_to or group or published):
        if mean is not None:
            raise UsageError("--mean averages groups of networks; pairs have a geometric mean only.")
        print_pairing(paths or [], beside, allowed, prices, fail_below, as_json)
        return
    if prices or fail_below is not None:
        raise UsageError("--prices and --fail-below are for pairs: say with what, such as --with published.")
    print_comparison(
        paths or [], Wanted(published, beside or [], normalize_to, group or [], mean, allowed), as_json
    )
