"""Transformer: Attention Is All You Need (Vaswani et al., 2017), the big model for English to German.

As NVIDIA's PyTorch recipe trains it (`transformer_wmt_en_de_big_t2t`), which is also MLPerf's: normalisation
before each block instead of after it, no biases in the attention, dropout 0.1 everywhere, one table of
33,712 word pieces for both languages and the scores (33,708 and four special ones), label smoothing 0.1, Adam
with betas 0.9 and 0.997. That makes 210,808,832 parameters; the paper's 213 million are with a vocabulary of
37,000.

A batch is counted in tokens, as in the recipe: as many pairs of like length as fit, each counted as long as
the longer side of the longest of them, and in eights where there are eight. The unit is what the recipe
counts, target word pieces with the sentence's end and without padding. Different: synthetic sentences and a
constant learning rate.

Inference translates: beam search with 4 candidates and length penalty 0.6 (the paper's). Untrained weights
know no end, so a translation is made as long as its source; German's are 7 % longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.language.beam_search import State, beam_search, length_penalty
from accelmark.networks.language.sentence_pairs import middle_pair, sentence_lengths, smoothed_cross_entropy
from accelmark.networks.language.words import word_pieces
from accelmark.networks.registry import register

PAD, END, FIRST_WORD = 1, 2, 4

#: The recipe's limit on the length of a sentence.
LONGEST = 256


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """`batch_size` is in tokens; `longest` is the longest sentence of a training batch, with its end."""

    layers: int
    width: int
    heads: int
    inner_width: int
    learning_rate: float
    vocabulary: int = 33_712
    dropout: float = 0.1
    longest: int = LONGEST
    beam: int = 4


class Attention(nn.Module):
    """Multi-head attention without biases; keys and values come from `memory`, or from the queries' own."""

    def __init__(self, config: TransformerConfig, own: bool) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout_p = config.dropout
        self.query = None if own else nn.Linear(config.width, config.width, bias=False)
        self.key_value = nn.Linear(config.width, (3 if own else 2) * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        # Each matrix by itself, as the recipe has them.
        for weight in (*self.key_value.weight.chunk(3 if own else 2), self.out.weight):
            nn.init.xavier_uniform_(weight)
        if self.query is not None:
            nn.init.xavier_uniform_(self.query.weight)

    def split(self, x: Tensor, parts: int) -> Sequence[Tensor]:
        """[rows, tokens, parts x width] to tensors of [rows, heads, tokens, width of a head]."""
        return x.unflatten(-1, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)

    def mix(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        dropout = self.dropout_p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        if self.query is None:
            return self.mix(*self.split(self.key_value(x), 3), mask, causal)
        (query,) = self.split(self.query(x), 1)
        return self.mix(query, *self.split(self.key_value(memory), 2), mask)


class FeedForward(nn.Sequential):
    """Two layers with a rectifier between them."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(
            nn.Linear(config.width, config.inner_width),
            nn.ReLU(inplace=True),
            nn.Dropout(config.dropout),
            nn.Linear(config.inner_width, config.width),
        )
        for layer in (self[0], self[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class EncoderLayer(nn.Module):
    """Attention to the sentence itself, then the feed-forward network, both added to what comes in."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config, own=True)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.drop(self.attention(self.attention_norm(x), mask=mask))
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(nn.Module):
    """Attention to the words so far, attention to the source, then the feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.own_norm = nn.LayerNorm(config.width)
        self.own = Attention(config, own=True)
        self.source_norm = nn.LayerNorm(config.width)
        self.source = Attention(config, own=False)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.drop(self.own(self.own_norm(x), causal=True))
        x = x + self.drop(self.source(self.source_norm(x), memory, mask))
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))

    def next_word(
        self, x: Tensor, own: Sequence[Tensor], source: Sequence[Tensor], mask: Tensor, at: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One more word, [rows, 1, width]: what comes out, and keys and values of the words so far.

        `own` keys and values have room for all words, `source` ones are the source's.
        """
        query, key, value = self.own.split(self.own.key_value(self.own_norm(x)), 3)
        places = torch.arange(own[0].shape[2], device=x.device)
        here = (places == at)[:, None]
        keys, values = torch.where(here, key, own[0]), torch.where(here, value, own[1])
        x = x + self.own.mix(query, keys, values, (places <= at)[None])
        (query,) = self.source.split(self.source.query(self.source_norm(x)), 1)
        x = x + self.source.mix(query, *source, mask)
        return x + self.feed_forward(self.feed_forward_norm(x)), keys, values


class Transformer(nn.Module):
    """Scores of each next target word, [rows, tokens, vocabulary], given source and target so far.

    A mask, [rows, 1, 1, source tokens], is true where there are words; without one they are everywhere.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, 0.0, config.width**-0.5)
        with torch.no_grad():
            self.embedding.weight[PAD] = 0
        self.register_buffer("positions", sinusoids(config.longest, config.width), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.encoder_norm = nn.LayerNorm(config.width)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.decoder_norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        self.scale = math.sqrt(config.width)

    def forward(self, source: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        # Looked up together: each look-up's gradient is as large as the whole table.
        looked = self.embedding(torch.cat([source.flatten(), target.flatten()]))
        sources, targets = looked.split([source.numel(), target.numel()])
        memory = self.encode(sources.view(*source.shape, -1), mask)
        x = self.drop(self.placed(targets.view(*target.shape, -1)))
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return self.score(x)

    def encode(self, words: Tensor, mask: Tensor | None) -> Tensor:
        """States of embedded words, [rows, tokens, width]."""
        x = self.drop(self.placed(words))
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def placed(self, words: Tensor) -> Tensor:
        """Embedded words with their positions."""
        return words * self.scale + self.positions[: words.shape[1]]

    def score(self, x: Tensor) -> Tensor:
        return F.linear(self.decoder_norm(x), self.embedding.weight)


class Translator(nn.Module):
    """Sentences [batch, tokens], padded, to translations as long, [batch, tokens], filled with ends."""

    def __init__(self, module: Transformer, config: TransformerConfig) -> None:
        super().__init__()
        self.module, self.config = module, config
        self.eval()

    def forward(self, source: Tensor) -> Tensor:
        net, config = self.module, self.config
        (sentences, longest), beam = source.shape, config.beam
        mask = (source != PAD)[:, None, None, :]
        lengths = mask.sum((1, 2, 3)) - 1
        memory = net.encode(net.embedding(source), mask).repeat_interleave(beam, 0)
        mask = mask.repeat_interleave(beam, 0)
        sources = [
            [each.contiguous() for each in layer.source.split(layer.source.key_value(memory), 2)]
            for layer in net.decoder
        ]
        room = (sentences * beam, config.heads, longest, config.width // config.heads)
        state = tuple(memory.new_zeros(room) for _ in range(2 * config.layers))

        def step(previous: Tensor, at: Tensor, state: State) -> tuple[Tensor, State]:
            x = net.embedding(previous[:, None]) * net.scale + net.positions.index_select(0, at[None])
            kept: list[Tensor] = []
            for i, (layer, keys_values) in enumerate(zip(net.decoder, sources, strict=True)):
                x, keys, values = layer.next_word(x, state[2 * i : 2 * i + 2], keys_values, mask, at)
                kept += [keys, values]
            return net.score(x).squeeze(1), tuple(kept)

        limits = (lengths, lengths.clone())
        return beam_search(step, state, sentences, beam, longest, limits, END, END, rank)


def rank(scores: Tensor, lengths: Tensor, state: State) -> Tensor:
    """How good candidates are, see `beam_search`."""
    return scores / length_penalty(lengths)


def sinusoids(longest: int, width: int) -> Tensor:
    """Position p's sines, then its cosines: as in the recipe, frequencies from 1 down to 1/10,000."""
    frequencies = torch.exp(torch.arange(width // 2) * (-math.log(10_000) / (width // 2 - 1)))
    angles = torch.arange(longest)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)


def batch_lengths(tokens: int, longest: int, generator: torch.Generator) -> tuple[int, Tensor]:
    """The length of a batch's sources, and of each target, with their ends.

    Sorted by source, then by target, pairs lie in the corpus so close that a batch has one length of source
    and targets that differ by a piece.
    """
    source, target = middle_pair(min(longest, tokens) - 1, generator)
    sources, most = source + 1, target + 1
    pairs = tokens // max(sources, most)
    if pairs >= 8:
        pairs -= pairs % 8
    shorter = torch.randint(2, (pairs,), generator=generator)
    shorter[0] = 0
    return sources, (most - shorter).clamp(min=1)


@register
class TransformerBig(Network):
    """The paper's big model, English to German."""

    name = "transformer-big"
    title = "Transformer (big)"
    domain = "language"
    task = "translation"
    unit = "words"
    inference_unit = "sentences"
    dataset = "WMT14 English-German"
    quality = QualityTarget("BLEU", 28.2)
    paper = "https://arxiv.org/abs/1706.03762"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Translation/Transformer"
    # Tokens: room for two pairs of short sentences.
    least_batch_size = 64
    sizes = {
        "full": TransformerConfig(
            batch_size=2560,
            parameters=210_808_832,
            layers=6,
            width=1024,
            heads=16,
            inner_width=4096,
            learning_rate=6e-4,
        ),
        "tiny": TransformerConfig(
            batch_size=256,
            layers=2,
            width=64,
            heads=4,
            inner_width=128,
            vocabulary=500,
            longest=24,
            learning_rate=1e-2,
        ),
    }

    def build(self, config: TransformerConfig) -> Transformer:
        return Transformer(config)

    def batch(
        self, config: TransformerConfig, batch_size: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        sources, targets = batch_lengths(batch_size, config.longest, generator)
        pairs = len(targets)
        source = word_pieces((pairs, sources), FIRST_WORD, config.vocabulary, generator)
        source[:, -1] = END
        place = torch.arange(int(targets.max()))
        label = word_pieces((pairs, len(place)), FIRST_WORD, config.vocabulary, generator)
        label = torch.where(place == targets[:, None] - 1, END, label)
        label = torch.where(place >= targets[:, None], PAD, label)
        # The decoder reads the words before each; before the first is an end, as in the recipe.
        target = torch.cat([torch.full((pairs, 1), END), label[:, :-1]], 1)
        return {"source": source, "target": target, "label": label}

    def units(self, batch: dict[str, Tensor]) -> int:
        return int((batch["label"] != PAD).sum())

    def padded_units(self, batch: dict[str, Tensor]) -> int:
        return batch["label"].numel()

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        scores = module(batch["source"], batch["target"])
        return smoothed_cross_entropy(scores, batch["label"], PAD), None

    def optimizer(self, module: nn.Module, config: TransformerConfig) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            module.parameters(), lr=config.learning_rate, betas=(0.9, 0.997), eps=1e-9, fused=True
        )

    def inference_inputs(
        self, config: TransformerConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        """Sentences, here counted as such."""
        lengths, _ = sentence_lengths(batch_size, config.longest - 1, generator)
        place = torch.arange(int(lengths.max()) + 1)
        source = word_pieces((batch_size, len(place)), FIRST_WORD, config.vocabulary, generator)
        source = torch.where(place == lengths[:, None], END, source)
        return (torch.where(place > lengths[:, None], PAD, source),)

    def inference(self, module: nn.Module, config: TransformerConfig) -> Translator:
        return Translator(module, config)

    def dynamic_shapes(self, config: TransformerConfig) -> tuple[Any, ...]:
        return ({0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=config.longest)},)
