"""GNMT v2: Google's Neural Machine Translation System (Wu et al., 2016) as NVIDIA's PyTorch recipe has it.

Four LSTM layers of 1024 on each side, the encoder's first one in both directions, residual connections from
the third on (arXiv:1609.08144). In this second version, which is also MLPerf's, the decoder's first layer
alone looks for where to attend (normalised Bahdanau attention, arXiv:1409.0473), and what it finds goes into
all layers above in the same step; so each layer runs over a whole sentence at once. 160,671,297 parameters
with the recipe's vocabulary of 32,320, one table for both languages; nobody published a count.

As in the recipe: uniform weights of at most 0.1, dropout 0.2 before each layer, label smoothing 0.1, the sum
over tokens divided by the sentences, Adam at 0.002, gradients clipped to 5; sentences of up to 50 tokens, a
batch from one of five ranges of length. The unit is the recipe's "total tokens": the source's with beginning
and end, and the target's with its end, without padding. Different: synthetic sentences, a constant learning
rate, and the first layer runs over the padding too, where the recipe packs the sentences and waits for the
device to do so; sentences are turned round within their lengths, so the answers are the same.

Inference translates as in the recipe: beam search with 5 candidates, length penalty 0.6, coverage penalty
0.1. Untrained weights know no end, so a translation is made as long as its source. What a candidate has
covered goes with it when the beam is sorted, as in the paper; the recipe leaves it at its old place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.language.beam_search import State, beam_search, length_penalty
from accelmark.networks.language.sentence_pairs import middle_pair, sentence_lengths, smoothed_cross_entropy
from accelmark.networks.language.words import word_pieces
from accelmark.networks.lstm import LSTM, one_step, turned
from accelmark.networks.registry import register

PAD, BEGIN, END, FIRST_WORD = 0, 2, 3, 4

#: Ranges of length that the recipe sorts sentences into.
BUCKETS = 5

COVERAGE = 0.1


@dataclass(frozen=True, kw_only=True)
class GNMTConfig(Config):
    """`longest` is in tokens, with a sentence's beginning and end."""

    layers: int
    width: int
    learning_rate: float
    vocabulary: int = 32_320
    dropout: float = 0.2
    longest: int = 50
    beam: int = 5


class Attention(nn.Module):
    """Weights of the source's states for a query: softmax of v . tanh(W q + U k + b), v of length g."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.vector = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.length = nn.Parameter(torch.full((1,), width**-0.5))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[rows, queries, width], keys [rows, tokens, width], mask [rows, 1, tokens] of real tokens."""
        vector = self.vector / self.vector.norm() * self.length
        both = (self.query(query) + self.bias).unsqueeze(2) + keys.unsqueeze(1)
        scores = (both.tanh() @ vector).float().masked_fill(~mask, -65504.0)
        return scores.softmax(-1)


class GNMT(nn.Module):
    """Scores of each next target token, [rows, tokens, vocabulary], given source, its lengths, and target."""

    def __init__(self, config: GNMTConfig) -> None:
        super().__init__()
        width = config.width
        self.embedding = nn.Embedding(config.vocabulary, width, padding_idx=PAD)
        self.forwards, self.backwards = LSTM(width, width), LSTM(width, width)
        self.encoder = nn.ModuleList(
            LSTM(2 * width if i == 0 else width, width) for i in range(config.layers - 1)
        )
        self.first = LSTM(width, width)
        self.attention = Attention(width)
        self.decoder = nn.ModuleList(LSTM(2 * width, width) for _ in range(config.layers - 1))
        self.classifier = nn.Linear(width, config.vocabulary)
        self.drop = nn.Dropout(config.dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | LSTM):
                for weight in module.parameters(recurse=False):
                    nn.init.uniform_(weight, -0.1, 0.1)
            if isinstance(module, LSTM):
                # An LSTM adds two biases to the same sums; in the recipe one of them begins at zero.
                nn.init.zeros_(module.bias_hh_l0)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        memory, keys, mask = self.encode(source, lengths)
        x = self.first(self.drop(self.embedding(target)))
        found = self.attention(x, keys, mask).to(memory.dtype) @ memory
        for i, layer in enumerate(self.decoder):
            answer = layer(self.drop(torch.cat([x, found], -1)))
            x = answer if i == 0 else x + answer
        return self.classifier(x)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States of the source's tokens, keys for the attention to them, and which are real."""
        x = self.drop(self.embedding(source))
        onward = self.forwards(x)
        back = self.backwards(turned(x, lengths))
        x = torch.cat([onward, turned(back, lengths)], -1)
        for i, layer in enumerate(self.encoder):
            answer = layer(self.drop(x))
            x = answer if i == 0 else x + answer
        real = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return x, self.attention.key(x), real.unsqueeze(1)

    def next_word(
        self, previous: Tensor, state: State, memory: Tensor, keys: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Scores of one more token, where it attended [rows, tokens], and each layer's state and cell."""
        x, cell = one_step(self.first, self.embedding(previous), state[0], state[1])
        kept = [x, cell]
        weights = self.attention(x.unsqueeze(1), keys, mask)
        found = (weights.to(memory.dtype) @ memory).squeeze(1)
        for i, layer in enumerate(self.decoder):
            own = state[2 * i + 2 : 2 * i + 4]
            answer, cell = one_step(layer, torch.cat([x, found], -1), *own)
            kept += [answer, cell]
            x = answer if i == 0 else x + answer
        return self.classifier(x), weights.squeeze(1), kept


class Translator(nn.Module):
    """Sentences [batch, tokens] and their lengths to translations [batch, tokens], filled with ends."""

    def __init__(self, module: GNMT, config: GNMTConfig) -> None:
        super().__init__()
        self.module, self.config = module, config
        self.eval()

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        net, config = self.module, self.config
        (sentences, longest), beam = source.shape, config.beam
        memory, keys, mask = (each.repeat_interleave(beam, 0) for each in net.encode(source, lengths))
        covered = memory.new_zeros(memory.shape[:2])
        empty = memory.new_zeros(memory.shape[0], config.width)

        def step(previous: Tensor, at: Tensor, state: State) -> tuple[Tensor, State]:
            scores, weights, kept = net.next_word(previous, state[1:], memory, keys, mask)
            # A finished candidate attends to nothing any more.
            attending = (previous != END)[:, None]
            return scores, (torch.where(attending, state[0] + weights, state[0]), *kept)

        def rank(scores: Tensor, lengths: Tensor, state: State) -> Tensor:
            covered = torch.where(mask.squeeze(1), state[0].clamp(1e-9, 1.0), 1.0).log().sum(1)
            # The recipe counts a translation's beginning, too.
            return scores / length_penalty(lengths + 1) + COVERAGE * covered.view_as(scores)

        state = (covered, *(empty.clone() for _ in range(2 * config.layers)))
        # A source's length is with its beginning and end.
        limits = (lengths - 2, lengths - 2)
        return beam_search(step, state, sentences, beam, longest, limits, BEGIN, END, rank)


@register
class GNMTV2(Network):
    """The recipe's and MLPerf's network, English to German."""

    name = "gnmt-v2"
    title = "GNMT v2"
    domain = "language"
    task = "translation"
    unit = "tokens"
    inference_unit = "sentences"
    dataset = "WMT16 English-German"
    quality = QualityTarget("BLEU", 24.3)
    paper = "https://arxiv.org/abs/1609.08144"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Translation/GNMT"
    clip_gradient_norm = 5.0
    sizes = {
        "full": GNMTConfig(batch_size=128, layers=4, width=1024, learning_rate=2e-3),
        "tiny": GNMTConfig(batch_size=16, layers=3, width=64, vocabulary=300, longest=16, learning_rate=4e-3),
    }

    def build(self, config: GNMTConfig) -> GNMT:
        return GNMT(config)

    def batch(self, config: GNMTConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        width = -(-config.longest // BUCKETS)

        def bucket(longer: Tensor) -> Tensor:
            # 50 tokens are one more than the last range has room for, and still in it.
            return (longer // width).clamp(max=BUCKETS - 1)

        chosen = bucket(torch.tensor(max(middle_pair(config.longest - 2, generator)) + 2))
        # Of a hundred pairs at least three are in any of the ranges.
        drawn = sentence_lengths(100 * batch_size, config.longest - 2, generator)
        source, target = (lengths + 2 for lengths in drawn)
        same = (bucket(torch.maximum(source, target)) == chosen).nonzero().squeeze(1)[:batch_size]
        sources, lengths = sentences(source[same], config.vocabulary, generator)
        targets, _ = sentences(target[same], config.vocabulary, generator)
        labels = targets[:, 1:].contiguous()
        # No word follows an end.
        before = torch.where(targets[:, :-1] == END, PAD, targets[:, :-1])
        return {"source": sources, "lengths": lengths, "target": before, "labels": labels}

    def units(self, batch: dict[str, Tensor]) -> int:
        return int(batch["lengths"].sum() + (batch["labels"] != PAD).sum())

    def padded_units(self, batch: dict[str, Tensor]) -> int:
        return batch["source"].numel() + batch["labels"].numel()

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        scores = module(batch["source"], batch["lengths"], batch["target"])
        total = smoothed_cross_entropy(scores, batch["labels"], PAD, reduction="sum")
        return total / batch["labels"].shape[0], None

    def optimizer(self, module: nn.Module, config: GNMTConfig) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, fused=True)

    def inference_inputs(
        self, config: GNMTConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        source, _ = sentence_lengths(batch_size, config.longest - 2, generator)
        return sentences(source + 2, config.vocabulary, generator)

    def inference(self, module: nn.Module, config: GNMTConfig) -> Translator:
        return Translator(module, config)

    def dynamic_shapes(self, config: GNMTConfig) -> tuple[Any, ...]:
        # An LSTM exports as one step after another, so sentences keep their length.
        batch = {0: torch.export.Dim("batch")}
        return batch, batch


def sentences(lengths: Tensor, vocabulary: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random sentences, padded, and their lengths with beginning and end."""
    place = torch.arange(int(lengths.max()))
    words = word_pieces((len(lengths), len(place)), FIRST_WORD, vocabulary, generator)
    words[:, 0] = BEGIN
    words = torch.where(place == lengths[:, None] - 1, END, words)
    return torch.where(place >= lengths[:, None], PAD, words), lengths
