"""DLRM: Deep Learning Recommendation Model (Naumov et al., 2019), as MLPerf has it, on Criteo's Terabyte.

Thirteen numbers go through three layers to 128 values, 26 categories each have a vector of 128, the products
of all pairs of these 27 and the first go through five layers to the chance of a click (arXiv:1906.00091).
MLPerf's tables, of which the five largest end at 40 million: 187,767,399 rows, 24.0 billion parameters in
them, 96 GB, and 2,368,897 in the layers; nobody published the sum of 24,036,595,969. SGD; the published rows
are MLPerf's, whose global batch is 55,296; one accelerator has 65,536 here as in NVIDIA's PyTorch recipe.

All tables are one, each behind the ones before, so that a step looks up once, and its gradient holds only
rows that were looked up. Several accelerators hold some columns of it each, so that 96 GB are 12 GB on each
of eight; the layers are on all of them. `--embedding-rows` ends every table at so many rows, for machines
with less memory; a row's number is then taken modulo. Rows are looked up by Zipf's law with an exponent of
1.05: the commonest of 40 million has 2.8 % of all look-ups, the first hundredth 80 %, which is an assumption
of the size that studies of the data report; or evenly, with `--lookups uniform`.

An inference query of MLPerf is a user with 100 to 700 pairs, 270 in the mean; `pairs_per_query` draws them.
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
from accelmark.networks.sharding import DividedEmbedding

#: Categories of Criteo's 26 features, ended at 40 million (MLPerf inference, recommendation/dlrm).
ROWS = (
    39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346, 10,
    2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
)  # fmt: skip
NUMBERS = 13

CATEGORIES = Curve(exponent=1.05, offset=2.7)

#: Share of samples that were clicked.
CLICKED = 0.034

#: Pairs of a query in MLPerf inference, each as often as the others (20 quantiles).
PAIRS = (100,) * 2 + (200,) * 12 + (300,) * 2 + (400, 500, 600, 700)


@dataclass(frozen=True, kw_only=True)
class DLRMConfig(Config):
    """`embedding_rows` are the most of each table; `None` leaves all that `rows` say."""

    rows: tuple[int, ...]
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    learning_rate: float
    embedding_rows: int | None = None
    lookups: str = SKEWED

    @property
    def table_width(self) -> int:
        """Of the tables' vectors."""
        return self.width

    @property
    def table_rows(self) -> list[int]:
        """The rows of the tables."""
        return [min(rows, self.embedding_rows or rows) for rows in self.rows]


def layers(widths: Sequence[int]) -> nn.ModuleList:
    """Products from width to width, with weights as the reference begins them."""
    made = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(widths))
    for layer in made:
        nn.init.normal_(layer.weight, 0.0, (2 / (layer.in_features + layer.out_features)) ** 0.5)
        nn.init.normal_(layer.bias, 0.0, layer.out_features**-0.5)
    return made


#: Rows of which values are drawn at a time.
DRAWN_ROWS = 16_384


def draw(weight: Tensor, tables: Sequence[int], columns: range) -> None:
    """Values of some columns of the tables: between plus and minus the root of one over a table's rows.

    Each column comes from a generator of its own, so that who holds some of the columns draws only those, and
    the same values as who holds all.
    """
    seed = int(torch.randint(2**48, (), device="cpu"))
    if weight.is_meta:
        return
    generators = [torch.Generator().manual_seed(seed + column) for column in columns]
    start = 0
    for rows in tables:
        bound = rows**-0.5
        for part in weight.detach()[start : start + rows].split(DRAWN_ROWS):
            values = torch.empty(len(columns), len(part))
            for column, generator in zip(values, generators, strict=True):
                column.uniform_(-bound, bound, generator=generator)
            part.copy_(values.t())
        start += rows


class DLRM(nn.Module):
    """Numbers [samples, 13] and rows of the tables [samples, 26] to scores [samples].

    One of several ranks holds its columns of the tables only.
    """

    def __init__(self, config: DLRMConfig, rank: int = 0, ranks: int = 1) -> None:
        super().__init__()
        tables = config.table_rows
        if ranks > 1:
            self.vectors = DividedEmbedding(sum(tables), config.width, rank, ranks)
            columns = self.vectors.columns
        else:
            # Made of what is there, which draws nothing.
            values = torch.empty(sum(tables), config.width)
            self.vectors = nn.Embedding.from_pretrained(values, freeze=False, sparse=True)
            columns = range(config.width)
        draw(self.vectors.weight, tables, columns)
        features = len(tables) + 1
        self.bottom = layers([NUMBERS, *config.bottom, config.width])
        self.top = layers([config.width + features * (features - 1) // 2, *config.top, 1])
        pairs = torch.tril_indices(features, features, -1)
        starts = torch.tensor([0, *itertools.accumulate(tables)][:-1])
        self.register_buffer("starts", starts, persistent=False)
        self.register_buffer("pairs", pairs[0] * features + pairs[1], persistent=False)

    def forward(self, numbers: Tensor, rows: Tensor) -> Tensor:
        x = numbers
        for layer in self.bottom:
            x = layer(x).relu()
        vectors = self.vectors(rows + self.starts).to(x.dtype)
        every = torch.cat([x.unsqueeze(1), vectors], 1)
        products = (every @ every.transpose(1, 2)).flatten(1)
        x = torch.cat([x, products[:, self.pairs]], 1)
        for layer in self.top[:-1]:
            x = layer(x).relu()
        return self.top[-1](x).squeeze(1).float()


class ClickPredictor(nn.Module):
    """Numbers and rows of samples to the chance of a click, [samples]."""

    def __init__(self, module: DLRM) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, numbers: Tensor, rows: Tensor) -> Tensor:
        return self.module(numbers, rows).sigmoid()


@register
class DLRMNetwork(Network):
    """MLPerf's, on the data of 24 days."""

    name = "dlrm"
    title = "DLRM"
    domain = "recommendation"
    task = "click prediction"
    unit = "samples"
    dataset = "Criteo Terabyte"
    quality = QualityTarget("AUC, %", 80.25)
    paper = "https://arxiv.org/abs/1906.00091"
    reference = "https://github.com/mlcommons/training/tree/r0.7/recommendation/dlrm"
    sizes = {
        "full": DLRMConfig(
            batch_size=65_536,
            rows=ROWS,
            width=128,
            bottom=(512, 256),
            top=(1024, 1024, 512, 256),
            learning_rate=1.0,
        ),
        "tiny": DLRMConfig(
            batch_size=128,
            rows=tuple(min(rows, 100) for rows in ROWS),
            width=8,
            bottom=(32, 16),
            top=(64, 32),
            learning_rate=0.5,
        ),
    }

    def build(self, config: DLRMConfig) -> DLRM:
        return DLRM(config)

    def build_share(self, config: DLRMConfig, rank: int, ranks: int) -> DLRM:
        return DLRM(config, rank, ranks)

    def batch(self, config: DLRMConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        # By the data's own categories, of which a table that ends earlier has several in one row.
        own, tables = torch.tensor(config.rows), torch.tensor(config.table_rows)
        rows = lookups(CATEGORIES, config.lookups, own, (batch_size, len(own)), generator)
        labels = torch.rand(batch_size, generator=generator) < CLICKED
        return {
            # Counts, as the logarithm of one more.
            "numbers": torch.randn(batch_size, NUMBERS, generator=generator).exp().log1p(),
            "rows": rows % tables,
            "labels": labels.float(),
        }

    def units(self, batch: dict[str, Tensor]) -> int:
        return len(batch["labels"])

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        scores = module(batch["numbers"], batch["rows"])
        return F.binary_cross_entropy_with_logits(scores, batch["labels"]), None

    def optimizer(self, module: nn.Module, config: DLRMConfig) -> torch.optim.Optimizer:
        return torch.optim.SGD(module.parameters(), lr=config.learning_rate)

    def inference_inputs(
        self, config: DLRMConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        batch = self.batch(config, batch_size, generator)
        return batch["numbers"], batch["rows"]

    def inference(self, module: nn.Module, config: DLRMConfig) -> ClickPredictor:
        return ClickPredictor(module)


def pairs_per_query(queries: int, generator: torch.Generator) -> Tensor:
    """How many samples each of so many queries asks for: a user's pairs with what may be shown."""
    return torch.tensor(PAIRS)[torch.randint(len(PAIRS), (queries,), generator=generator)]
