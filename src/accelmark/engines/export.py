"""A network as an ONNX file, for the engines that read such."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from accelmark.engines.inference import Load
from accelmark.engines.pytorch import set_precision
from accelmark.engines.tree import leaves
from accelmark.errors import UnsupportedError


class Exported(NamedTuple):
    """An ONNX file and the names of its inputs, in the order of the network's."""

    path: Path
    inputs: list[str]


def to_onnx(load: Load) -> Exported:
    """A Load's module for the shapes of its batches, as a file in its folder."""
    path = load.folder / "network.onnx"
    set_precision("fp32")
    try:
        with torch.no_grad(), quiet():
            program = torch.onnx.export(
                load.module, load.batches[0], dynamo=True, verbose=False, optimize=load.optimize_graph
            )
            assert program is not None  # noqa: S101 - the exporter of today always returns one
            program.save(path)
    except torch.onnx.errors.OnnxExporterError as error:
        first = str(error).strip().splitlines()[0]
        raise UnsupportedError(
            f"the network cannot be exported to ONNX for these shapes: {first[:200]}"
        ) from error
    names, taken = [each.name for each in program.model.graph.inputs], len(list(leaves(load.batches[0])))
    if len(names) != taken:
        raise UnsupportedError(
            f"the exported graph takes {len(names)} inputs and the network {taken}: the export dropped some"
        )
    return Exported(path, names)


def calibration(load: Load, names: list[str]) -> list[dict[str, Any]]:
    """Each batch as arrays, by the names of the file's inputs."""
    return [
        {name: tensor.contiguous().numpy() for name, tensor in zip(names, leaves(batch), strict=True)}
        for batch in load.batches
    ]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what exporters and quantisers tell of themselves, which is hundreds of lines."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
