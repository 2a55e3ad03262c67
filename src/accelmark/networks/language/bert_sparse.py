"""BERT-Large whose encoder's matrices are half zeros, two of every four: 2:4 structured sparsity.

The method is that of Accelerating Sparse Deep Neural Networks (Mishra et al., 2021, arXiv:2104.08378): of
every four neighbouring weights of a row the two smallest are set to zero, once, and training goes on with the
zeros fixed. Embeddings and the head stay dense. All else is BERT-Large for question answering, see `bert.py`;
at 128 tokens, the length of the published row, 96 % of a batch is text.

Training multiplies with the zeros. Inference on an accelerator needs kernels that skip them, and is
unsupported where there are none; on a CPU, from where the network is exported, it runs dense, which gives
the same answers without the gain. Different from the published row: 16-bit kernels, where that has INT8.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.errors import UnsupportedError
from accelmark.networks.language import bert
from accelmark.networks.registry import register

#: The first compute capability whose tensor cores skip zeros.
FIRST_SPARSE = (8, 0)

SPARSE_DTYPES = (torch.float16, torch.bfloat16)


def two_of_four(weight: Tensor) -> Tensor:
    """True for the two largest magnitudes of every four neighbours of a row."""
    groups = weight.abs().unflatten(1, (-1, 4))
    largest = groups.topk(2, -1).indices
    return torch.zeros_like(groups, dtype=torch.bool).scatter(-1, largest, True).flatten(1)


class Pruned(nn.Linear):
    """A linear layer whose masked weights are zero and get no gradient, so no optimiser moves them."""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__(dense.in_features, dense.out_features, device="meta")
        self.weight, self.bias = dense.weight, dense.bias
        self.register_buffer("mask", two_of_four(dense.weight.detach()))
        with torch.no_grad():
            self.weight.mul_(self.mask)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.mask, self.bias)


def unsupported(device: str, capability: tuple[int, int], library: bool, dtype: torch.dtype) -> str | None:
    """Why an accelerator cannot skip the zeros of weights of a type; `None` if it can.

    `library` is whether torch has the sparse kernels (cuSPARSELt) here.
    """
    if device != "cuda":
        return f"2:4 sparse kernels exist for CUDA devices, not for {device}"
    if capability < FIRST_SPARSE:
        return (
            "2:4 sparse kernels need compute capability 8.0 or higher, "
            f"and this device has {capability[0]}.{capability[1]}"
        )
    if not library:
        return "this build of torch has no 2:4 sparse kernels (cuSPARSELt)"
    if dtype not in SPARSE_DTYPES:
        return f"2:4 sparse kernels need fp16 or bf16, not {str(dtype).removeprefix('torch.')}"
    return None


def compute_dtype(weight: Tensor) -> torch.dtype:
    """The type in which a weight is multiplied: autocast's inside autocast, else its own."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


def reason_unsupported(weight: Tensor) -> str | None:
    """Why the zeros of a weight cannot be skipped where it lies."""
    device = weight.device
    cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device) if cuda else (0, 0)
    library = cuda and torch.backends.cusparselt.is_available()
    return unsupported(device.type, capability, library, compute_dtype(weight))


def dense_weight(layer: Pruned) -> Tensor:
    """The weight with its zeros written out."""
    return (layer.weight * layer.mask).detach()


def compressed_weight(layer: Pruned) -> Tensor:
    """The weight without its zeros, which selects the sparse kernels."""
    weight = dense_weight(layer).to(compute_dtype(layer.weight))
    return torch.sparse.to_sparse_semi_structured(weight)


@register
class BertLargeSparse(bert.BertNetwork):
    """BERT-Large for question answering with a 2:4 sparse encoder."""

    name = "bert-large-sparse"
    title = "BERT-Large with 2:4 sparsity"
    # That of the dense network, which the method is to keep.
    quality = bert.BertLarge.quality
    paper = "https://arxiv.org/abs/2104.08378"
    reference = "https://github.com/NVIDIA/apex/tree/master/apex/contrib/sparsity"
    tasks = {"question-answering": 128, "squad": 128}
    sizes = {
        "full": replace(bert.LARGE, task="question-answering", sequence_length=128),
        "tiny": replace(bert.LARGE_TINY, task="question-answering"),
    }

    def build(self, config: bert.BertSizes) -> nn.Module:
        module = super().build(config)
        for layer in list(module.bert.encoder.modules()):
            for name, child in layer.named_children():
                if type(child) is nn.Linear:
                    setattr(layer, name, Pruned(child))
        return module

    def inference(self, module: nn.Module, config: bert.BertSizes) -> nn.Module:
        """A copy without masks: compressed on an accelerator, with the zeros written out on a CPU."""
        weight = module.qa_outputs.weight
        dense = weight.device.type in ("cpu", "meta")
        if not dense and (reason := reason_unsupported(weight)):
            raise UnsupportedError(reason)
        answering = copy.deepcopy(module).eval()
        for layer in list(answering.modules()):
            for name, child in layer.named_children():
                if isinstance(child, Pruned):
                    plain = nn.Linear(child.in_features, child.out_features, device="meta")
                    values = dense_weight(child) if dense else compressed_weight(child)
                    plain.weight = nn.Parameter(values, requires_grad=False)
                    plain.bias = child.bias
                    setattr(layer, name, plain.eval())
        return answering
