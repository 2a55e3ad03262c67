"""`accelmark choose`: how many accelerators of which kind serve a load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def choose(
    network: Annotated[str, typer.Option(help="The network to serve.")],
    qps: Annotated[float, typer.Option(min=0, help="The load, in units of the figures per second.")],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files of Records, besides the published rows.")
    ] = None,
    scenario: Annotated[str, typer.Option(help="server, offline, inference, serving, …")] = "server",
    latency: Annotated[float | None, typer.Option(min=0, help="The latency bound in milliseconds.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A YAML file of prices: currency, date, per, prices by board.")
    ] = None,
    own_only: Annotated[bool, typer.Option("--own-only", help="Leave the published rows out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Choose accelerators for a load: how many of which kind, power, cost, and what that rests on."""
    from accelmark.cli.choosing import print_choices
    from accelmark.compare.choose import Need

    print_choices(paths or [], Need(network, scenario, qps, latency), prices, own_only, as_json)
