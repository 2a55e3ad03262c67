"""How good a ranking is: hit rate, NDCG, MAP, and the area under the ROC curve, for many users at once."""

from __future__ import annotations

import torch
from torch import Tensor


def hit_rate(scores: Tensor, wanted: Tensor, first: int) -> Tensor:
    """Share of users whose wanted item is among the `first`: scores [users, items], wanted [users].

    Items that score as high as the wanted one are ranked before it, so that equal scores earn nothing
    (He et al., 2017, section 4.1, with `first` of 10).
    """
    own = scores.gather(1, wanted[:, None])
    before = (scores >= own).sum(1) - 1
    return (before < first).double().mean()


def ndcg(scores: Tensor, wanted: Tensor, first: int) -> Tensor:
    """Normalised discounted cumulative gain: scores and wanted (0 or 1), [users, items]; all want something.

    Each wanted item at place k counts 1 / log2(k + 1), relative to all wanted ones at the top (Liang et al.,
    2018, section 4.2, with `first` of 100).
    """
    count = min(first, scores.shape[1])
    discounts = 1 / torch.arange(2, count + 2, dtype=torch.float64, device=scores.device).log2()
    found = wanted.gather(1, scores.topk(count, 1).indices).double()
    best = torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])
    ideal = best[wanted.sum(1).long().clamp(max=count)]
    return ((found * discounts).sum(1) / ideal).mean()


def mean_average_precision(scores: Tensor, clicked: Tensor, real: Tensor, first: int) -> Tensor:
    """MAP of displays with one click each: scores, clicked and real (0 or 1), [displays, advertisements].

    With one click it is the mean of 1 / place, or 0 behind the `first` (Outbrain's competition has 12).
    """
    scores = scores.masked_fill(real == 0, -torch.inf)
    own = (scores * clicked.masked_fill(real == 0, 0)).nan_to_num(0).sum(1, keepdim=True)
    place = ((scores >= own) & (clicked == 0)).sum(1) + 1
    return torch.where(place <= first, 1 / place.double(), 0.0).mean()


def auc(scores: Tensor, labels: Tensor) -> Tensor:
    """Chance that a clicked sample scores above one that is not, ties counting half; [samples] each."""
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    # The mean rank of equal scores.
    ranks = (counts.cumsum(0).double() - (counts.double() - 1) / 2)[place]
    clicked = labels > 0.5
    hits, others = clicked.sum().double(), (~clicked).sum().double()
    return (ranks[clicked].sum() - hits * (hits + 1) / 2) / (hits * others)
