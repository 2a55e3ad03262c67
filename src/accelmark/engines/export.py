"""A network as an ONNX file, for the engines that read such."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from accelmark.engines.inference import Load
from accelmark.engines.pytorch import set_precision
from accelmark.engines.tree import leaves
from accelmark.errors import UnsupportedError


def to_onnx(load: Load) -> Path:
    """The file of a Load's module for the shapes of its batches, written once."""
    path = load.folder / "network.onnx"
    if path.exists():
        return path
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
    return path


def feeds(load: Load, names: list[str]) -> list[dict[str, torch.Tensor]]:
    """Each batch by the names of the file's inputs."""
    batches = [[tensor.contiguous() for tensor in leaves(batch)] for batch in load.batches]
    if len(names) != len(batches[0]):
        raise UnsupportedError(
            f"the exported graph takes {len(names)} inputs and the network {len(batches[0])}: the export "
            f"dropped some"
        )
    return [dict(zip(names, batch, strict=True)) for batch in batches]


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
