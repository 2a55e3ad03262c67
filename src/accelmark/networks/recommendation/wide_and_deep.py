"""Wide & Deep Learning for Recommender Systems (Cheng et al., 2016), on Outbrain's click prediction.

One weight for each category that an advertisement and its page have, and beside it five layers of 1024 over
vectors of the categories and 32 numbers; the two sums are added (arXiv:1606.07792). NVIDIA's TensorFlow
recipe of 2020: 23 categorical features with hashed tables of 300,000 rows and less, vectors of 128 for the
three largest and of 64 for 14, five features of 2 to 6 values as they are, six features with 3 or 6 values at
once, whose vectors are averaged. 91,893,370 parameters; nobody published a count.

Tables of one width are one table here, with each feature's rows behind the ones before: one look-up instead
of a dozen. Training is the recipe's but for the wide part's FTRL, which torch has not; without penalties it
takes the same steps as Adagrad (McMahan, 2011), which both parts have here, at 0.2 and 1.0 and from 0.1. Rows
are looked up by Zipf's law with an exponent of 1.05, an assumption; one of 5.2 advertisements of a display is
clicked (87 million in 16.9 million displays).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.recommendation.popularity import SKEWED, Curve, lookups
from accelmark.networks.registry import register

#: Rows of the tables with wide vectors: the page, the document shown, the advertisement.
LARGE = (300_000, 100_000, 250_000)
#: Rows of those with narrow ones: the page's source, place, state, publisher and country; the advertisement's
#: source, advertiser and publisher.
SMALL = (4_000, 2_500, 2_000, 1_000, 300, 4_000, 2_500, 1_000)
#: Rows and values of features that have several at once: entities, topics and categories of the page, then of
#: the advertisement.
SEVERAL = ((10_000, 6), (350, 3), (100, 3), (10_000, 6), (350, 3), (100, 3))
#: Values of features that have no vectors: hour, platform, source of traffic, weekend, seen before.
FEW = (6, 3, 3, 2, 2)
NUMBERS = 32

CATEGORIES = Curve(exponent=1.05, offset=2.7)
#: Advertisements of a display: 2 to 12, each number 0.823 times as often as the one before; 5.2 in the mean.
LEAST, MOST, RATIO = 2, 12, 0.823


@dataclass(frozen=True, kw_only=True)
class WideAndDeepConfig(Config):
    """`fraction` of the tables' rows are there."""

    large_width: int
    small_width: int
    layers: tuple[int, ...]
    fraction: float = 1.0
    lookups: str = SKEWED
    deep_rate: float = 1.0

    def rows(self) -> tuple[list[int], list[int], list[int]]:
        """Rows of the features' tables: large, small, and of features with several values."""
        several = [rows for rows, _ in SEVERAL]
        return tuple(
            [max(2, round(rows * self.fraction)) for rows in each] for each in (LARGE, SMALL, several)
        )


def behind(rows: Sequence[int], values: Sequence[int]) -> Tensor:
    """Where each value's table begins if all are put behind each other; a feature's values share its rows."""
    starts = [0, *itertools.accumulate(rows)]
    return torch.tensor([start for start, count in zip(starts, values, strict=False) for _ in range(count)])


class WideAndDeep(nn.Module):
    """Categories [samples, 40] and numbers [samples, 32] to scores [samples]."""

    def __init__(self, config: WideAndDeepConfig) -> None:
        super().__init__()
        large, small, several = config.rows()
        self.values = [values for _, values in SEVERAL]
        self.large = nn.Embedding(sum(large), config.large_width)
        self.small = nn.Embedding(sum(small) + sum(several), config.small_width)
        wide = [*large, *small, *several, *FEW]
        self.wide = nn.Embedding(sum(wide), 1)
        self.wide_numbers = nn.Linear(NUMBERS, 1)
        one_large, one_few = [1] * len(large), [1] * len(FEW)
        shared = [1] * len(small) + self.values
        for name, value in (
            ("large_starts", behind(large, one_large)),
            ("small_starts", behind([*small, *several], shared)),
            ("wide_starts", behind(wide, one_large + shared + one_few)),
            ("few_starts", behind(FEW, one_few)),
        ):
            self.register_buffer(name, value, persistent=False)
        vectors = len(large) * config.large_width + (len(small) + len(several)) * config.small_width
        widths = [vectors + sum(FEW) + NUMBERS, *config.layers]
        self.layers = nn.ModuleList(
            nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(widths)
        )
        self.score = nn.Linear(widths[-1], 1)
        self.singles = (len(large), len(small))
        for table in (self.large, self.small):
            deviation = table.embedding_dim**-0.5
            nn.init.trunc_normal_(table.weight, 0.0, deviation, -2 * deviation, 2 * deviation)
        for weight in (self.wide.weight, self.wide_numbers.weight):
            nn.init.zeros_(weight)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        large, small = self.singles
        few = len(FEW)
        wide = self.wide(categories + self.wide_starts).sum(1) + self.wide_numbers(numbers)
        vectors = [self.large(categories[:, :large] + self.large_starts).flatten(1)]
        found = self.small(categories[:, large:-few] + self.small_starts)
        vectors.append(found[:, :small].flatten(1))
        vectors += [each.mean(1) for each in found[:, small:].split(self.values, 1)]
        chosen = (categories[:, -few:] + self.few_starts).unsqueeze(2)
        few_values = torch.arange(sum(FEW), device=chosen.device)
        vectors.append((chosen == few_values).to(numbers.dtype).sum(1))
        x = torch.cat([*vectors, numbers], 1)
        for layer in self.layers:
            x = layer(x).relu()
        return (wide + self.score(x)).squeeze(1).float()


@register
class WideAndDeepNetwork(Network):
    """NVIDIA's recipe on Outbrain's data."""

    name = "wide-and-deep"
    title = "Wide and Deep"
    domain = "recommendation"
    task = "click prediction"
    unit = "samples"
    dataset = "Kaggle Outbrain Click Prediction"
    quality = QualityTarget("MAP at 12", 0.68)
    paper = "https://arxiv.org/abs/1606.07792"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow/Recommendation/WideAndDeep"
    )
    sizes = {
        "full": WideAndDeepConfig(batch_size=131_072, large_width=128, small_width=64, layers=(1024,) * 5),
        "tiny": WideAndDeepConfig(
            batch_size=64, large_width=8, small_width=4, layers=(32, 32), fraction=0.002, deep_rate=0.05
        ),
    }

    def build(self, config: WideAndDeepConfig) -> WideAndDeep:
        return WideAndDeep(config)

    def batch(self, config: WideAndDeepConfig, batch_size: int, generator: torch.Generator) -> dict:
        large, small, several = config.rows()
        repeated = [rows for rows, (_, values) in zip(several, SEVERAL, strict=True) for _ in range(values)]
        rows = torch.tensor([*large, *small, *repeated])
        tables = lookups(CATEGORIES, config.lookups, rows, (batch_size, len(rows)), generator)
        few = (torch.rand(batch_size, len(FEW), generator=generator) * torch.tensor(FEW)).long()
        return {
            "categories": torch.cat([tables, few], 1),
            # Logarithms, brought between 0 and 1.
            "numbers": torch.rand(batch_size, NUMBERS, generator=generator),
            "labels": clicks(batch_size, generator),
        }

    def units(self, batch: dict) -> int:
        return len(batch["labels"])

    def loss(self, module: nn.Module, batch: dict, state: None) -> tuple[Tensor, None]:
        scores = module(batch["categories"], batch["numbers"])
        return F.binary_cross_entropy_with_logits(scores, batch["labels"]), None

    def optimizer(self, module: nn.Module, config: WideAndDeepConfig) -> torch.optim.Optimizer:
        parts: dict[bool, list] = {True: [], False: []}
        for name, parameter in module.named_parameters():
            parts[name.startswith("wide")].append(parameter)
        groups = [{"params": parts[True], "lr": 0.2}, {"params": parts[False], "lr": config.deep_rate}]
        return torch.optim.Adagrad(groups, initial_accumulator_value=0.1)

    def inference_inputs(
        self, config: WideAndDeepConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        batch = self.batch(config, batch_size, generator)
        return batch["categories"], batch["numbers"]


def displays(count: int, generator: torch.Generator) -> Tensor:
    """How many advertisements each of so many displays has."""
    chances = RATIO ** torch.arange(MOST - LEAST + 1, dtype=torch.float64)
    return LEAST + torch.multinomial(chances, count, replacement=True, generator=generator)


def clicks(samples: int, generator: torch.Generator) -> Tensor:
    """Which advertisements were clicked, one in each display, the displays one after the other: [samples]."""
    counts = displays(samples // LEAST + 1, generator)
    chosen = (torch.rand(len(counts), generator=generator) * counts).long()
    place = counts.cumsum(0) - counts + chosen
    return torch.zeros(samples).scatter(0, place[place < samples], 1.0)
