"""VAE-CF: Variational Autoencoders for Collaborative Filtering (Liang et al., 2018), on MovieLens 20M.

A user's films, brought to length 1 and half of them dropped, become by way of 600 values a normal
distribution of 200, and a draw from it becomes scores of all films (arXiv:1802.05814, Mult-VAE). NVIDIA's
recipe: 20,108 films, filled up to a multiple of 8; the multinomial likelihood and, with a weight that rises
by 1 / 15,000 a step to 0.1, the distance to the standard normal distribution; Adam at 0.004 with betas of
0.9, batches of 24,576 users. 24,516,112 parameters; nobody published a count.

The films of a batch are numbers, padded, as many as MovieLens' users rated with 4 stars and more (136,677
users, 10.0 million: 73 in the mean, log-normal, here at most 600) and as popular as they are. Training adds
up the rows of the films that a user has, as the recipe's sparse product does. The draw comes with the batch.
Different: weights begin by Glorot's rule with biases of 0 and decay not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.recommendation.popularity import FILMS, SKEWED, lookups
from accelmark.networks.registry import register

#: Films of a user: mean before doubles and what is above the most are left out, deviation of the logarithm.
MEAN, SPREAD = 82.5, 1.1

#: The weight of the distance to the normal distribution: its largest, and the steps that would bring it to 1.
WEIGHT, STEPS = 0.1, 15_000


@dataclass(frozen=True, kw_only=True)
class VAEConfig(Config):
    """`longest` are the most films of a user; `mean` are those of the mean one."""

    films: int
    hidden: int
    latent: int
    longest: int
    mean: float = MEAN
    lookups: str = SKEWED
    learning_rate: float = 0.004


class MultVAE(nn.Module):
    """Films [users, longest] and how many, and noise [users, latent], to scores, means, log-variances."""

    def __init__(self, config: VAEConfig) -> None:
        super().__init__()
        self.first = nn.EmbeddingBag(config.films, config.hidden, mode="sum")
        self.first_bias = nn.Parameter(torch.zeros(config.hidden))
        self.second = nn.Linear(config.hidden, 2 * config.latent)
        self.third = nn.Linear(config.latent, config.hidden)
        self.scores = nn.Linear(config.hidden, config.films)
        self.drop = nn.Dropout(0.5)
        for layer in (self.first, self.second, self.third, self.scores):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (self.second, self.third, self.scores):
            nn.init.zeros_(layer.bias)

    def forward(self, films: Tensor, counts: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        real = places(films) < counts[:, None]
        weights = self.drop(real * counts[:, None].rsqrt())
        x = self.first(films, per_sample_weights=weights.to(self.first.weight.dtype)) + self.first_bias
        mean, log_variance = self.second(x.tanh()).float().chunk(2, 1)
        return self.decode(mean + (log_variance / 2).exp() * noise), mean, log_variance

    def decode(self, latent: Tensor) -> Tensor:
        """Scores of all films, [users, films]."""
        return self.scores(self.third(latent).tanh())


def places(films: Tensor) -> Tensor:
    """0, 1, ... for each of a user's films."""
    return torch.arange(films.shape[1], device=films.device)


class Recommender(nn.Module):
    """Films [users, longest] and how many to scores of all films [users, films]; those it has score least."""

    def __init__(self, module: MultVAE, config: VAEConfig) -> None:
        super().__init__()
        self.module, self.films = module, config.films
        self.eval()

    def forward(self, films: Tensor, counts: Tensor) -> Tensor:
        net = self.module
        # What is no film goes into one row more, which is cut off.
        films = torch.where(places(films) < counts[:, None], films, self.films)
        has = net.first_bias.new_zeros(films.shape[0], self.films + 1).scatter(1, films, 1.0)[:, :-1]
        x = (has / counts[:, None].sqrt()) @ net.first.weight + net.first_bias
        mean, _ = net.second(x.tanh()).chunk(2, 1)
        return net.decode(mean) - 1e9 * has


@register
class VAECF(Network):
    """NVIDIA's recipe of Mult-VAE."""

    name = "vae-cf"
    title = "VAE-CF"
    domain = "recommendation"
    task = "recommending films by those liked"
    unit = "users"
    dataset = "MovieLens 20M"
    quality = QualityTarget("NDCG@100", 0.43)
    paper = "https://arxiv.org/abs/1802.05814"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow/Recommendation/VAE-CF"
    sizes = {
        "full": VAEConfig(batch_size=24_576, films=20_112, hidden=600, latent=200, longest=600),
        "tiny": VAEConfig(
            batch_size=32, films=80, hidden=32, latent=8, longest=20, mean=12, learning_rate=0.05
        ),
    }

    def build(self, config: VAEConfig) -> MultVAE:
        return MultVAE(config)

    def batch(self, config: VAEConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        films, counts = liked(config, batch_size, generator)
        noise = torch.randn(batch_size, config.latent, generator=generator)
        return {"films": films, "counts": counts, "noise": noise}

    def units(self, batch: dict[str, Tensor]) -> int:
        return len(batch["films"])

    def loss(
        self, module: nn.Module, batch: dict[str, Tensor], state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        films, counts = batch["films"], batch["counts"]
        step = torch.zeros((), device=films.device) if state is None else state
        scores, mean, log_variance = module(films, counts, batch["noise"])
        real = places(films) < counts[:, None]
        scores = scores.float()
        # The sum of the logarithms of softmax over a user's films.
        likelihood = (scores.gather(1, films) * real).sum(1) - counts * scores.logsumexp(1)
        distance = (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2
        weight = (step / STEPS).clamp(max=WEIGHT)
        return (weight * distance - likelihood).mean(), step + 1

    def optimizer(self, module: nn.Module, config: VAEConfig) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, betas=(0.9, 0.9), fused=True)

    def inference_inputs(
        self, config: VAEConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return liked(config, batch_size, generator)

    def inference(self, module: nn.Module, config: VAEConfig) -> Recommender:
        return Recommender(module, config)


def liked(config: VAEConfig, users: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Different films of each user, 0 behind the last one, and how many they are."""
    draws = torch.randn(users, generator=generator, dtype=torch.float64)
    counts = (config.mean * (SPREAD * draws - SPREAD**2 / 2).exp()).round().clamp(5, config.longest).long()
    films = lookups(FILMS, config.lookups, config.films, (users, config.longest), generator)
    films = torch.where(places(films) < counts[:, None], films, config.films).sort(1).values
    # What was drawn twice is liked once; what is left moves to the front.
    again = F.pad(films[:, 1:] == films[:, :-1], (1, 0))
    films = films.masked_fill(again, config.films).sort(1).values
    counts = (films < config.films).sum(1)
    return torch.where(films < config.films, films, 0), counts
