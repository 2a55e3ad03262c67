"""Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context (Dai et al., 2019).

Written from the paper (arXiv:1901.02860), in the configurations of NVIDIA's PyTorch recipe for WikiText-103
(`full`) and of Lambda's study of 2021 (`full-softmax`: the same code called without `--adaptive`, so every
token is scored against all 267,735 words).

As in the recipe: sizes, initialisation, dropout, post-normalised layers, position biases shared by all
layers, tied tables, gradient clipping at 0.25. Different: Adam instead of LAMB (see `optimizer`); queries
are computed for the current segment only, where the recipe computes them for the memory too and drops them;
the options of its evaluation (longer memory, clamped distances) are left out; tokens are drawn at random with
the frequencies of English.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register

#: Tokens and the tokens that follow them, [batch, time] both, and the groups of each (see `by_cluster`).
Batch = tuple[Tensor, Tensor, list[list[Tensor]]]


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(Config):
    """`sequence_length` is the segment: the tokens of one step, that is `tgt_len` in the recipe."""

    sequence_length: int
    memory_length: int
    layers: int
    width: int
    heads: int
    head_width: int
    inner_width: int
    dropout: float
    attention_dropout: float
    vocabulary: int = 267_735
    #: Where the frequency-sorted vocabulary is cut into clusters; empty means one softmax over all words.
    cutoffs: tuple[int, ...] = (19_997, 39_997, 199_997)
    #: Each cluster's embedding is this much narrower than that of the one before.
    divisor: int = 1
    initial_deviation: float = 0.02
    learning_rate: float = 2.5e-4


BASE = TransformerXLConfig(
    batch_size=4,
    parameters=191_950_298,
    sequence_length=192,
    memory_length=192,
    layers=16,
    width=512,
    heads=8,
    head_width=64,
    inner_width=2048,
    dropout=0.1,
    attention_dropout=0.0,
)
# Lambda's logs print the count. They left the initialisation at the default, 0.02.
BASE_FULL_SOFTMAX = replace(BASE, parameters=191_948_759, cutoffs=())
# Nobody prints this count: the paper says 257M, but the recipe's own code builds 285,167,482.
LARGE = TransformerXLConfig(
    batch_size=2,
    sequence_length=384,
    memory_length=384,
    layers=18,
    width=1024,
    heads=16,
    head_width=64,
    inner_width=4096,
    dropout=0.2,
    attention_dropout=0.2,
    divisor=4,
    initial_deviation=0.005,
)
LARGE_FULL_SOFTMAX = replace(
    LARGE,
    parameters=519_963_095,
    sequence_length=256,
    memory_length=256,
    cutoffs=(),
    divisor=1,
    initial_deviation=0.02,
)
BASE_TINY = TransformerXLConfig(
    batch_size=4,
    sequence_length=32,
    memory_length=32,
    layers=2,
    width=64,
    heads=2,
    head_width=32,
    inner_width=128,
    dropout=0.1,
    attention_dropout=0.0,
    vocabulary=1000,
    cutoffs=(100, 400),
    learning_rate=1e-2,
)
LARGE_TINY = TransformerXLConfig(
    batch_size=4,
    sequence_length=48,
    memory_length=48,
    layers=3,
    width=64,
    heads=2,
    head_width=32,
    inner_width=128,
    dropout=0.2,
    attention_dropout=0.2,
    vocabulary=1000,
    cutoffs=(100, 400),
    divisor=4,
    learning_rate=1e-2,
)


def by_cluster(words: Tensor, cutoffs: Tensor) -> list[Tensor]:
    """Positions of each cluster's words in a flat tensor, in order.

    How many there are decides the shapes that follow, so on an accelerator the host would wait for the device
    here. In training the words are known before they are sent there, and their groups come with the batch.
    """
    cluster = torch.bucketize(words, cutoffs, right=True)
    return [(cluster == i).nonzero().squeeze(1) for i in range(len(cutoffs) + 1)]


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Of each target [n], in fp32; torch's own does not export for a number of targets that is not known."""
    return -logits.float().log_softmax(-1).gather(1, target[:, None]).squeeze(1)


class Vocabulary(nn.Module):
    """Both ends of the network, which share their tables: word embedding and (adaptive) softmax.

    Words are sorted by frequency and cut into clusters. The head scores the first cluster's words and, as
    one entry each, the other clusters; only tokens in such a cluster pay for scoring its words. With
    `divisor` > 1 rare clusters have narrow tables and a projection to the network's width, shared by both
    ends for all but the first cluster, as in the recipe.
    """

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.width)
        self.ends = (*config.cutoffs, config.vocabulary)
        self.starts = (0, *config.cutoffs)
        self.clusters = len(self.ends)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.projections = nn.ParameterList()
        if config.divisor == 1:
            self.tables = nn.ParameterList([torch.empty(config.vocabulary, config.width)])
            self.head_projection = None
        else:
            widths = [config.width // config.divisor**i for i in range(self.clusters)]
            sizes = [end - start for start, end in zip(self.starts, self.ends, strict=True)]
            self.tables = nn.ParameterList(torch.empty(n, w) for n, w in zip(sizes, widths, strict=True))
            self.projections.extend(torch.empty(config.width, w) for w in widths)
            self.head_projection = nn.Parameter(torch.empty(config.width, config.width))
        if config.cutoffs:
            self.cluster_weight = nn.Parameter(torch.empty(self.clusters - 1, config.width))
            self.cluster_bias = nn.Parameter(torch.zeros(self.clusters - 1))
            self.register_buffer("cutoffs", torch.tensor(config.cutoffs), persistent=False)

        for weight in self.tables:
            nn.init.normal_(weight, 0.0, config.initial_deviation)
        if config.cutoffs:
            nn.init.normal_(self.cluster_weight, 0.0, config.initial_deviation)
        for weight in self.projections:
            nn.init.normal_(weight, 0.0, 0.01)
        if self.head_projection is not None:
            nn.init.normal_(self.head_projection, 0.0, 0.01)

    def table(self, i: int) -> Tensor:
        return self.tables[i] if self.projections else self.tables[0][self.starts[i] : self.ends[i]]

    def embed(self, tokens: Tensor, groups: Sequence[Tensor] = ()) -> Tensor:
        """Token ids [batch, time] to [batch, time, width]; `groups` are those of the flat tokens."""
        if not self.projections:
            return F.embedding(tokens, self.tables[0]) * self.scale
        flat = tokens.flatten()
        groups = groups or by_cluster(flat, self.cutoffs)
        rows = [
            F.linear(F.embedding(flat[group] - start, table), projection)
            for group, start, table, projection in zip(
                groups, self.starts, self.tables, self.projections, strict=True
            )
        ]
        # The rows lie cluster by cluster; the inverse permutation brings them back into the text's order.
        # The residual stream that they begin stays in the parameters' precision under autocast.
        rows = torch.cat(rows)[torch.cat(groups).argsort()].to(self.bias.dtype)
        return rows.view(*tokens.shape, -1) * self.scale

    def head_logits(self, hidden: Tensor) -> Tensor:
        """Scores of the first cluster's words, then of the other clusters."""
        if self.clusters == 1:
            return F.linear(hidden, self.table(0), self.bias)
        if self.head_projection is not None:
            hidden = hidden @ self.head_projection
        weight = torch.cat([self.table(0), self.cluster_weight])
        return F.linear(hidden, weight, torch.cat([self.bias[: self.ends[0]], self.cluster_bias]))

    def tail_logits(self, hidden: Tensor, i: int) -> Tensor:
        """Scores of cluster `i`'s words among themselves."""
        if self.projections:
            hidden = hidden @ self.projections[i]
        return F.linear(hidden, self.table(i), self.bias[self.starts[i] : self.ends[i]])

    def negative_log_likelihood(
        self, hidden: Tensor, target: Tensor, groups: Sequence[Tensor] = ()
    ) -> Tensor:
        """Of each target [n], of `groups`, given its hidden state [n, width]; in fp32."""
        if self.clusters == 1:
            return cross_entropy(self.head_logits(hidden), target)
        cluster = torch.bucketize(target, self.cutoffs, right=True)
        in_head = torch.where(cluster == 0, target, self.ends[0] - 1 + cluster)
        loss = cross_entropy(self.head_logits(hidden), in_head)
        # Empty clusters are not skipped: their parameters stay in the graph, which DDP relies on.
        for i, group in enumerate(groups or by_cluster(target, self.cutoffs)):
            if i > 0:
                tail = cross_entropy(self.tail_logits(hidden[group], i), target[group] - self.starts[i])
                loss = loss.index_add(0, group, tail)
        return loss

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Of every word: [n, vocabulary], in fp32."""
        head = self.head_logits(hidden).float().log_softmax(-1)
        parts = [head[:, : self.ends[0]]]
        for i in range(1, self.clusters):
            tail = self.tail_logits(hidden, i).float().log_softmax(-1)
            parts.append(tail + head[:, self.ends[0] + i - 1].unsqueeze(1))
        return torch.cat(parts, 1)


def relative_shift(scores: Tensor) -> Tensor:
    """From scores by distance to scores by key: `[..., query, key + 1]` to `[..., query, key]`.

    Column c of the input is the score at distance keys - 1 - c; the last column, at distance -1, is a dummy.
    Key j lies (keys - queries) + i - j before query i, so row i moves left by queries - 1 - i. In memory,
    with rows one longer than the result's, that is one slice read with a shorter row: a view, where padding
    and reshaping would copy the largest tensor of the network. Keys after the query get whatever lies there
    and must be masked.
    """
    queries, keys = scores.shape[-2], scores.shape[-1] - 1
    return scores.flatten(-2)[..., queries - 1 : queries - 1 + queries * keys].unflatten(-1, (queries, keys))


class Layer(nn.Module):
    """Relative multi-head attention over memory and segment, then the feed-forward network."""

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.heads, self.head_width = config.heads, config.head_width
        self.attention_dropout = config.attention_dropout
        inner = config.heads * config.head_width
        self.query = nn.Linear(config.width, inner, bias=False)
        self.key_value = nn.Linear(config.width, 2 * inner, bias=False)
        self.position = nn.Linear(config.width, inner, bias=False)
        self.out = nn.Linear(inner, config.width, bias=False)
        self.attention_norm = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, config.inner_width)
        self.contract = nn.Linear(config.inner_width, config.width)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, memory: Tensor | None, positions: Tensor, u: Tensor, v: Tensor, mask: Tensor
    ) -> Tensor:
        attended = self.attend(x, memory, positions, u, v, mask)
        x = self.attention_norm(x + self.drop(self.out(attended)))
        hidden = self.drop(F.relu(self.expand(x), inplace=True))
        return self.feed_forward_norm(x + self.drop(self.contract(hidden)))

    def attend(
        self, x: Tensor, memory: Tensor | None, positions: Tensor, u: Tensor, v: Tensor, mask: Tensor
    ) -> Tensor:
        """The paper's equation of section 3.3: terms a + c are (q + u) k, terms b + d are (q + v) r."""
        context = x if memory is None else torch.cat([memory, x], 1)
        q = self.query(x).unflatten(-1, (self.heads, self.head_width))
        k, value = self.key_value(context).unflatten(-1, (2, self.heads, self.head_width)).unbind(2)
        r = self.position(positions).unflatten(-1, (self.heads, self.head_width))
        # The biases take q's precision, or autocast would widen q to single precision and narrow it again.
        with_u, with_v = q + u.to(q.dtype), q + v.to(q.dtype)

        # The scale goes on the small factor of the product, not on the large result.
        by_distance = (with_v * self.head_width**-0.5).transpose(1, 2) @ r.permute(1, 2, 0)
        bias = relative_shift(by_distance) + mask.to(q.dtype)
        # As an additive mask the position term lets a GPU's memory-efficient kernel keep scores and
        # probabilities on the chip. On a CPU, where no fused kernel has a gradient for the mask, this takes
        # 63 ms forward and backward (batch 4, 8 heads, 192 queries, 384 keys, 2 threads); baddbmm onto the
        # shifted view takes 60 ms, the textbook way with a padded shift 83 ms.
        mixed = F.scaled_dot_product_attention(
            with_u.transpose(1, 2),
            k.transpose(1, 2),
            value.transpose(1, 2),
            attn_mask=bias,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        return mixed.transpose(1, 2).flatten(-2)


class TransformerXL(nn.Module):
    """`module(data, target, *memory)` is (loss per token [batch, time], new memory).

    `groups` are those of the flat data and of the target, found here if not given (see `by_cluster`).
    Memory is one tensor [batch, length, width] per layer: what that layer read in the segments before,
    detached; none at first. Without a target the first result is the log-probabilities of the next word
    after the last token, [batch, vocabulary].
    """

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.memory_length = config.memory_length
        self.vocabulary = Vocabulary(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.u = nn.Parameter(torch.empty(config.heads, config.head_width))
        self.v = nn.Parameter(torch.empty(config.heads, config.head_width))
        frequencies = 10_000 ** -(torch.arange(0, config.width, 2) / config.width)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.drop = nn.Dropout(config.dropout)

        deviation = config.initial_deviation
        nn.init.normal_(self.u, 0.0, deviation)
        nn.init.normal_(self.v, 0.0, deviation)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0.0, deviation)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                nn.init.normal_(module.weight, 1.0, deviation)

    def forward(
        self,
        data: Tensor,
        target: Tensor | None = None,
        *memory: Tensor,
        groups: Sequence[Sequence[Tensor]] = ((), ()),
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        queries = data.shape[1]
        keys = queries + (memory[0].shape[1] if memory else 0)
        # Distances from the farthest key down to 0, and one more for the dummy column of the shift.
        distance = torch.arange(keys - 1, -2, -1, device=data.device, dtype=self.frequencies.dtype)
        angles = torch.outer(distance, self.frequencies)
        positions = self.drop(torch.cat([angles.sin(), angles.cos()], -1))
        future = torch.ones(queries, keys, dtype=torch.bool, device=data.device).triu(keys - queries + 1)
        mask = torch.zeros(queries, keys, device=data.device).masked_fill(future, -math.inf)

        x = self.drop(self.vocabulary.embed(data, groups[0]))
        new_memory = []
        for i, layer in enumerate(self.layers):
            past = memory[i] if memory else None
            new_memory.append(self.remember(past, x))
            x = layer(x, past, positions, self.u, self.v, mask)
        x = self.drop(x)

        if target is None:
            return self.vocabulary.log_probabilities(x[:, -1]), tuple(new_memory)
        loss = self.vocabulary.negative_log_likelihood(x.flatten(0, 1), target.flatten(), groups[1])
        return loss.view_as(target), tuple(new_memory)

    def remember(self, past: Tensor | None, x: Tensor) -> Tensor:
        """The last `memory_length` states; no copy where the segment alone fills the memory."""
        x = x.detach()
        if past is not None and x.shape[1] < self.memory_length:
            x = torch.cat([past, x], 1)
        return x[:, -self.memory_length :]


class Scorer(nn.Module):
    """How surprising each token of a text is, [batch, time], and the memory for the text that follows."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(
        self, data: Tensor, target: Tensor, memory: list[Tensor]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.module(data, target, *memory)


@functools.cache
def cumulative_frequencies(vocabulary: int) -> Tensor:
    """Zipf-Mandelbrot: the word of rank r is drawn in proportion to (r + 4.5) ** -1.35.

    With WikiText-103's 267,735 words and 103 million tokens, these constants give the rarest word its
    three occurrences (the data set's threshold) and the commonest 6 % of the text. How often a token falls
    into which cluster decides what the adaptive softmax costs: 97 % are in the first.
    """
    rank = torch.arange(1, vocabulary + 1, dtype=torch.float64)
    weight = (rank + 4.5) ** -1.35
    return weight.cumsum(0) / weight.sum()


class TransformerXLNetwork(Network):
    """What both configurations share."""

    domain = "language"
    task = "language modelling"
    unit = "tokens"
    inference_unit = "sequences"
    dataset = "WikiText-103"
    paper = "https://arxiv.org/abs/1901.02860"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/LanguageModeling/Transformer-XL"
    )
    clip_gradient_norm = 0.25

    def build(self, config: TransformerXLConfig) -> TransformerXL:
        return TransformerXL(config)

    def batch(self, config: TransformerXLConfig, batch_size: int, generator: torch.Generator) -> Batch:
        draws = torch.rand(batch_size, config.sequence_length + 1, generator=generator, dtype=torch.float64)
        tokens = torch.searchsorted(cumulative_frequencies(config.vocabulary), draws)
        # The last sum may round to just below 1, and a draw may lie between.
        tokens = tokens.clamp(max=config.vocabulary - 1)
        data, target = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        cutoffs = torch.tensor(config.cutoffs)
        groups = (
            [by_cluster(words.flatten(), cutoffs) for words in (data, target)] if config.cutoffs else [[], []]
        )
        return data, target, groups

    def units(self, batch: Batch) -> int:
        return batch[1].numel()

    def loss(
        self, module: nn.Module, batch: Batch, state: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        data, target, groups = batch
        losses, memory = module(data, target, *(state or ()), groups=groups)
        return losses.mean(), memory

    def optimizer(self, module: nn.Module, config: TransformerXLConfig) -> torch.optim.Optimizer:
        # The paper trains with Adam at this rate, and Lambda's large runs did too. NVIDIA's figures and
        # Lambda's base runs are with LAMB, in a form of the recipe's own (moments not corrected, all tensors
        # scaled); it is Adam and two norms per tensor, so those figures carry a slightly dearer step.
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, fused=True)

    def inference_inputs(
        self, config: TransformerXLConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Any]:
        # Scoring a text with the memory full, as the recipe's inference benchmark does.
        shape = (batch_size, config.memory_length, config.width)
        memory = [torch.randn(shape, generator=generator) for _ in range(config.layers)]
        return (*self.batch(config, batch_size, generator)[:2], memory)

    def inference(self, module: nn.Module, config: TransformerXLConfig) -> Scorer:
        return Scorer(module)

    def dynamic_shapes(self, config: TransformerXLConfig) -> tuple[Any, ...]:
        # Segments keep their length: what the memory keeps of them depends on it.
        batch = {0: torch.export.Dim("batch")}
        return batch, batch, [batch] * config.layers


@register
class TransformerXLBase(TransformerXLNetwork):
    """NVIDIA's base: the paper's standard model at hardware-friendly sizes."""

    name = "transformer-xl-base"
    title = "Transformer-XL Base"
    quality = QualityTarget("perplexity", 23.2)
    sizes = {"full": BASE, "tiny": BASE_TINY, "full-softmax": BASE_FULL_SOFTMAX}


@register
class TransformerXLLarge(TransformerXLNetwork):
    """The paper's large model."""

    name = "transformer-xl-large"
    title = "Transformer-XL Large"
    quality = QualityTarget("perplexity", 18.2)
    sizes = {"full": LARGE, "tiny": LARGE_TINY, "full-softmax": LARGE_FULL_SOFTMAX}
