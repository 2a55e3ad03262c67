"""`accelmark list`: which networks, suites and published rows there are."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

KINDS = ("networks", "suites", "published")


def list_(
    kind: Annotated[str, typer.Argument(help="networks, suites or published")],
    network: Annotated[str | None, typer.Option(help="Published rows: only this network.")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Published rows: only this scenario: training, server, …")
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="Published rows: only boards with this in their name: A100, T4, …")
    ] = None,
    runnable: Annotated[
        bool,
        typer.Option("--runnable", help="Published rows: count those that can run here, and small."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List networks, suites or published rows."""
    from accelmark.errors import UsageError, unknown
    from accelmark.text import print_table

    if kind not in KINDS:
        raise unknown("list", kind, KINDS)
    if kind == "published":
        from accelmark.cli.publications import print_published

        print_published(network, scenario, accelerator, runnable, as_json)
        return
    if network or scenario or accelerator or runnable:
        raise UsageError(
            "--network, --scenario, --accelerator and --runnable are for accelmark list published."
        )
    objects = _networks() if kind == "networks" else _suites()
    if as_json:
        print(json.dumps(objects, indent=1, ensure_ascii=False))
    elif kind == "networks":
        print_table(
            ("network", "domain", "size", "parameters", "GFLOP", "unit", "batch", "data set", "quality"),
            [
                [
                    str(network["name"]),
                    str(network["domain"]),
                    size,
                    f"{numbers['parameters']:,}",
                    f"{numbers['flops_per_sample'] / 1e9:,.4g}",
                    str(network["unit"]),
                    str(numbers["batch_size"]),
                    str(network["dataset"]),
                    f"{network['quality_metric']} {network['quality_target']:g}",
                ]
                for network in objects
                for size, numbers in network["sizes"].items()
            ],
            {3, 4, 6},
        )
    else:
        print_table(
            ("suite", "networks", "what it is"),
            [
                [str(suite["name"]), ", ".join(suite["networks"]), str(suite["description"])]
                for suite in objects
            ],
        )


def _networks() -> list[dict[str, Any]]:
    from accelmark.networks.registry import catalog
    from accelmark.published import entries

    found = []
    for entry in catalog().values():
        described = entry.model_dump(exclude={"module"})
        sizes = described.pop("sizes")
        # The published size's count beside the name, where a reader looks for it.
        listed = {"published_entries": entries.of(entry.name), "parameters": sizes["full"]["parameters"]}
        found.append({**described, **listed, "sizes": sizes})
    return found


def _suites() -> list[dict[str, Any]]:
    from accelmark.run import suite as suites

    found = []
    for name in suites.names():
        suite = suites.load(name)
        networks = dict.fromkeys(network for entry in suite.entries for network in entry.networks)
        found.append({"networks": list(networks), **suite.model_dump()})
    return found
