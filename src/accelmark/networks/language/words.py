"""Words as frequent as those of a language: how often one repeats is what an embedding's gradient costs."""

from __future__ import annotations

import functools

import torch
from torch import Tensor


@functools.cache
def cumulative_frequencies(words: int) -> Tensor:
    """Zipf-Mandelbrot in Mandelbrot's own form: the word of rank r is drawn in proportion to 1 / (r + 2.7).

    3 % are the commonest of 30,000.
    """
    weight = 1 / (torch.arange(1, words + 1, dtype=torch.float64) + 2.7)
    return weight.cumsum(0) / weight.sum()


def word_pieces(shape: tuple[int, ...], first: int, vocabulary: int, generator: torch.Generator) -> Tensor:
    """Random ids from `first`, the commonest, to the vocabulary's last; what is below `first` is special."""
    words = vocabulary - first
    draws = torch.rand(shape, generator=generator, dtype=torch.float64)
    # The last sum may round to just below 1, and a draw may lie between.
    return first + torch.searchsorted(cumulative_frequencies(words), draws).clamp(max=words - 1)
