"""Sentence pairs as long as those of WMT English-German, for the networks that translate.

The corpus of WMT 2014 has 4.5 million pairs with 116 million English and 110 million German words (Luong et
al., 2015, arXiv:1508.04025), 25.8 and 24.4 a sentence; that of 2016 is nearly the same. In a joint vocabulary
of 32,000 byte pairs an English word has about 1.1 pieces and a German one 1.25. No published spread was
found; sentences of prose are about log-normal, here with a deviation of 0.65: an eighth has over 50 pieces.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Word pieces in the mean source and target sentence.
MEAN = (28.4, 30.5)
#: Deviation of the logarithm of a source's length, and of the logarithm of a target's relative to its source.
SPREAD, RATIO_SPREAD = 0.65, 0.2

#: Share of a label that is spread over all words.
SMOOTHING = 0.1


def sentence_lengths(count: int, longest: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Word pieces of `count` random pairs, source and target; pairs with one above `longest` are left out."""
    source, target = torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    while len(source) < count:
        draws = torch.randn(2, 2 * count + 64, generator=generator, dtype=torch.float64)
        exact = MEAN[0] * (SPREAD * draws[0] - SPREAD**2 / 2).exp()
        ratio = MEAN[1] / MEAN[0] * (RATIO_SPREAD * draws[1] - RATIO_SPREAD**2 / 2).exp()
        lengths = torch.stack([exact, exact * ratio]).round().long().clamp(min=1)
        kept = lengths[:, (lengths <= longest).all(0)]
        source, target = torch.cat([source, kept[0]]), torch.cat([target, kept[1]])
    return source[:count], target[:count]


def middle_pair(longest: int, generator: torch.Generator) -> tuple[int, int]:
    """A pair's lengths, from the middle half of the corpus's tokens.

    A few batches stand for many, and the shortest and the longest would make figures a matter of chance.
    """
    source, target = sentence_lengths(1000, longest, generator)
    sizes = torch.maximum(source, target).sort()
    share = sizes.values.cumsum(0) / sizes.values.sum()
    middle = sizes.indices[(share > 0.25) & (share <= 0.75)]
    one = middle[torch.randint(len(middle), (), generator=generator)]
    return int(source[one]), int(target[one])


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, padding: int, reduction: str = "mean") -> Tensor:
    """Over all labels but padding, in fp32; `SMOOTHING` of each is spread over all words."""
    return F.cross_entropy(
        logits.float().flatten(0, 1),
        labels.flatten(),
        ignore_index=padding,
        label_smoothing=SMOOTHING,
        reduction=reduction,
    )
