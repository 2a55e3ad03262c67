"""`accelmark run`: measure suites and networks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from accelmark.text import print_table, safe

TO_QUALITY = {"time-to-quality": "30m"}


def run(
    targets: Annotated[list[str], typer.Argument(help="Suites, networks, or files that declare networks.")],
    network: Annotated[str | None, typer.Option(help="Only these networks of the suites: a,b")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="training, inference, speech-synthesis, time-to-quality.")
    ] = None,
    size: Annotated[str | None, typer.Option(help="full, tiny, or another size of the network.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32, fp16 (mixed), bf16 (mixed); inference also int8: a,b")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="eager, compile; inference also onnxruntime, onnxruntime-tensorrt, openvino, tensorrt: a,b"
        ),
    ] = None,
    batch_size: Annotated[
        str | None,
        typer.Option(
            help="Per accelerator: numbers, default, max (that fits), best (fastest); inference also "
            "'under 7ms' (largest whose p99 is): a,b"
        ),
    ] = None,
    accelerators: Annotated[str | None, typer.Option(help="How many, data parallel: 1,2,4,8")] = None,
    gradient_accumulation: Annotated[
        int | None, typer.Option(min=1, help="Micro-batches for each optimiser step.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="What a network with several uses does.")] = None,
    sequence_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of each sequence, for networks that have one.")
    ] = None,
    embedding_rows: Annotated[
        int | None, typer.Option(min=1, help="End every embedding table at so many rows.")
    ] = None,
    lookups: Annotated[
        str | None, typer.Option(help="Rows of embedding tables: skewed (as the data's) or uniform.")
    ] = None,
    chunk_ms: Annotated[
        int | None, typer.Option(min=1, help="Speech synthesis: milliseconds of audio in a chunk.")
    ] = None,
    streams: Annotated[int | None, typer.Option(min=1, help="Inference: calls in flight.")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Inference: equal parts of the machine, each with a copy.")
    ] = None,
    power_log: Annotated[
        Path | None, typer.Option(help="A meter's log of the system while this runs: spl.txt, or time,watts.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda, rocm, xpu, mps or cpu; else the best here.")
    ] = None,
    allow_emulated: Annotated[
        bool, typer.Option("--allow-emulated", help="Measure precisions that are only emulated here.")
    ] = False,
    time_budget: Annotated[
        str | None, typer.Option(help="Warm-up and measuring of one Job, like 60s; its processes share it.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Half-width of the 95 % interval to reach, like 1%.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=100, help="Processes of each Job.")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="A process is ended this long after its time budget, like 15m.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, data and the order of Jobs.")] = 0,
    system_name: Annotated[str | None, typer.Option(help="What to call this machine in the Records.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the Records.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Measure only what is missing in --out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the Jobs and measure nothing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the Records (or, with --dry-run, the Jobs) as JSON.")
    ] = False,
) -> None:
    """Measure training, inference and more with their intervals, and keep a Record of every Job."""
    from accelmark.cli import options
    from accelmark.cli.measuring import finish, start, with_meter
    from accelmark.errors import UnreadableInputError
    from accelmark.run import plan as planning
    from accelmark.run import suite as suites
    from accelmark.run.catalogue import describe

    chosen = [suites.load(name) for name in targets if name in suites.names()]
    wish = planning.Wish(
        networks=options.words("--network", network),
        scenario=scenario,
        size=size,
        precisions=options.words("--precision", precision),
        engines=options.words("--engine", engine),
        batch_sizes=options.batch_rules(batch_size),
        accelerators=options.counts("--accelerators", accelerators),
        gradient_accumulation=gradient_accumulation,
        task=task,
        sequence_length=sequence_length,
        embedding_rows=embedding_rows,
        lookups=lookups,
        chunk_ms=chunk_ms,
        streams=streams,
        partitions=partitions,
        seed=seed,
    )
    settings = options.settings(
        [suite.settings for suite in chosen],
        # A run to a quality takes as long as it takes: this is when it is given up.
        time_budget=options.seconds("--time-budget", time_budget or TO_QUALITY.get(scenario or "")),
        target=options.share("--target", target),
        repeats=repeats,
        timeout=options.seconds("--timeout", timeout),
        device=device,
        allow_emulated=allow_emulated,
    )
    if power_log is not None and not power_log.is_file():
        raise UnreadableInputError(f"{power_log} does not exist; start the meter's log before measuring.")
    files = {name: describe(Path(name)) for name in targets if name.endswith(".py")}
    found = planning.targets(targets, files)
    session = start(out, device, system_name, seed, prepare=not dry_run)
    jobs, notes = planning.plan(found, wish, settings, session.system)
    if any(suite.ceilings for suite in chosen) and network is None:
        jobs = [job for job in planning.ceilings(settings, session.system) if not job.unsupported] + jobs
    for note in notes:
        print(f"accelmark: {safe(note)}", file=sys.stderr)
    if dry_run:
        if as_json:
            listed = [{**job.job.model_dump(mode="json"), "unsupported": job.unsupported} for job in jobs]
            print(json.dumps(listed, indent=1))
        else:
            rows = [[job.job.label(), job.unsupported or ""] for job in jobs]
            print_table(("Job", "unsupported here, because"), rows)
        return
    records = session.run(jobs, resume)
    if power_log is not None:
        records = with_meter(session, records, power_log)
    finish(session, records, as_json)
