"""NCF: Neural Collaborative Filtering (He et al., 2017), its NeuMF with 64 factors, on MovieLens 20M.

A user's and a film's vectors are multiplied, and others go through three layers; both together give one score
(arXiv:1708.05031). NVIDIA's recipes: 138,493 users, 26,744 films, layers of 256, 256, 128 and 64, dropout
0.5, Adam at 0.0045 with betas 0.25 and 0.5, four films that a user has not rated for each one rated.
31,832,577 parameters, nearly all in the tables; nobody published a count.

Users rate by MovieLens' own spread (median 68, mean 144 ratings), rated films follow their popularity, others
are drawn evenly. Different: constant learning rate; whether a film drawn as not rated was rated is not looked
up, which happens to one in a hundred and changes no work.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.recommendation.popularity import FILMS, SKEWED, lookups
from accelmark.networks.registry import register

#: Films not rated for each one rated.
NEGATIVES = 4

#: Ratings of MovieLens' users: median, deviation of the logarithm that gives the mean, least and most.
MEDIAN, SPREAD, LEAST, MOST = 68.0, 1.225, 20.0, 9254.0


@dataclass(frozen=True, kw_only=True)
class NCFConfig(Config):
    """`layers` are widths, the first of a user's and a film's vectors together."""

    users: int
    films: int
    factors: int
    layers: tuple[int, ...]
    lookups: str = SKEWED
    learning_rate: float = 0.0045
    dropout: float = 0.5


@functools.cache
def cumulative_ratings(users: int) -> Tensor:
    """Share of all ratings by the first so many users, each with a log-normal number of them."""
    places = (torch.arange(users, dtype=torch.float64) + 0.5) / users
    ratings = (MEDIAN * (SPREAD * torch.special.ndtri(places)).exp()).clamp(LEAST, MOST)
    return ratings.cumsum(0) / ratings.sum()


class NeuMF(nn.Module):
    """Scores, [samples], of users and films [samples] each."""

    def __init__(self, config: NCFConfig) -> None:
        super().__init__()
        half = config.layers[0] // 2
        self.user_factors = nn.Embedding(config.users, config.factors)
        self.film_factors = nn.Embedding(config.films, config.factors)
        self.user_vectors = nn.Embedding(config.users, half)
        self.film_vectors = nn.Embedding(config.films, half)
        self.layers = nn.ModuleList(
            nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(config.layers)
        )
        self.score = nn.Linear(config.layers[-1] + config.factors, 1)
        self.drop = nn.Dropout(config.dropout)
        for table in (self.user_factors, self.film_factors, self.user_vectors, self.film_vectors):
            nn.init.normal_(table.weight, 0.0, 0.01)
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight)
        bound = (3 / self.score.in_features) ** 0.5
        nn.init.uniform_(self.score.weight, -bound, bound)

    def forward(self, users: Tensor, films: Tensor) -> Tensor:
        product = self.user_factors(users) * self.film_factors(films)
        x = torch.cat([self.user_vectors(users), self.film_vectors(films)], 1)
        for layer in self.layers:
            x = self.drop(layer(x).relu())
        return self.score(torch.cat([product.to(x.dtype), x], 1)).squeeze(1).float()


@register
class NCF(Network):
    """NVIDIA's recipe of NeuMF."""

    name = "ncf"
    title = "NCF"
    domain = "recommendation"
    task = "recommending films"
    unit = "samples"
    dataset = "MovieLens 20M"
    quality = QualityTarget("hit rate at 10", 0.96)
    paper = "https://arxiv.org/abs/1708.05031"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Recommendation/NCF"
    sizes = {
        "full": NCFConfig(
            batch_size=1_048_576, users=138_493, films=26_744, factors=64, layers=(256, 256, 128, 64)
        ),
        "tiny": NCFConfig(
            batch_size=512,
            users=300,
            films=100,
            factors=8,
            layers=(32, 32, 16),
            learning_rate=0.02,
            dropout=0.1,
        ),
    }

    def build(self, config: NCFConfig) -> NeuMF:
        return NeuMF(config)

    def batch(self, config: NCFConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        rated = torch.arange(batch_size) % (NEGATIVES + 1) == 0
        users = torch.searchsorted(
            cumulative_ratings(config.users),
            torch.rand(batch_size, generator=generator, dtype=torch.float64),
        ).clamp(max=config.users - 1)
        films = torch.randint(config.films, (batch_size,), generator=generator)
        liked = lookups(FILMS, config.lookups, config.films, (int(rated.sum()),), generator)
        films[rated] = liked
        return {"users": users, "films": films, "labels": rated.float()}

    def units(self, batch: dict[str, Tensor]) -> int:
        return len(batch["users"])

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        scores = module(batch["users"], batch["films"])
        return F.binary_cross_entropy_with_logits(scores, batch["labels"]), None

    def optimizer(self, module: nn.Module, config: NCFConfig) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, betas=(0.25, 0.5), fused=True)

    def inference_inputs(
        self, config: NCFConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        batch = self.batch(config, batch_size, generator)
        return batch["users"], batch["films"]
