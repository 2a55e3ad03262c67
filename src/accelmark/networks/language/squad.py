"""What the encoders fine-tuned on SQuAD v1.1 have in common: sizes, word pieces, the batch, loss, optimiser.

Questions have about 12 word pieces and paragraphs 160. At 384 tokens 46 % of a batch is text and the rest is
padding, as measured on the data set (https://openreview.net/forum?id=3nzKUh9a4M: 54 % padding); at 128, where
most paragraphs are cut, 96 % is text. The published runs compute on the padding, and so do these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.errors import UsageError
from accelmark.networks.base import Config
from accelmark.networks.language.words import word_pieces

#: BERT's vocabulary begins with special and unused entries; these are its ids.
PAD, CLS, SEP, MASK = 0, 101, 102, 103
FIRST_WORD = 999

#: The shortest sequence that holds two texts and their three special tokens with something in each.
SHORTEST = 8

#: The longest question that the recipes keep, and the longest answer that their evaluation considers.
LONGEST_QUESTION = 64
LONGEST_ANSWER = 30


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Config):
    """A Transformer encoder of BERT's kind; `vocabulary` is that of the uncased English models."""

    sequence_length: int
    layers: int
    width: int
    heads: int
    inner_width: int
    learning_rate: float
    vocabulary: int = 30_522
    #: Rows of the table of learnt positions, and so the longest sequence.
    positions: int = 512
    dropout: float = 0.1


def log_normal(median: float, deviation: float, count: int, generator: torch.Generator) -> Tensor:
    """`count` lengths in whole tokens, one a row; `deviation` is that of the logarithm."""
    draws = torch.randn(count, 1, generator=generator, dtype=torch.float64)
    return (median * (deviation * draws).exp()).round().long()


def sentence_pair(
    first: Tensor, second: Tensor, length: int, vocabulary: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """`[CLS] first [SEP] second [SEP]` and padding: ids, segment of each token, mask of real tokens.

    `first` and `second` are how many word pieces each row has, [batch, 1].
    """
    position = torch.arange(length)
    middle = first + 1
    end = middle + second + 1
    ids = word_pieces((first.shape[0], length), FIRST_WORD, vocabulary, generator)
    ids = torch.where((position == middle) | (position == end), SEP, ids)
    ids[:, 0] = CLS
    ids = torch.where(position > end, PAD, ids)
    segments = ((position > middle) & (position <= end)).long()
    return ids, segments, (position <= end).long()


def squad_batch(config: EncoderConfig, batch_size: int, generator: torch.Generator) -> dict[str, Any]:
    """Questions, paragraphs, and the first and last token of each answer.

    A paragraph that does not fit is cut, and the answer lies in what is left of it: the recipes cut it into
    overlapping windows, and train on those that hold no answer too (1 % at 384 tokens).
    """
    length = config.sequence_length
    longest = min(LONGEST_QUESTION, length // 4)
    question = log_normal(11.4, 0.33, batch_size, generator).clamp(3, longest)
    # Median and spread give the measured mean, and 1.2 % of paragraphs too long for 384 tokens: the recipes
    # make 88,641 windows of the 87,599 examples.
    paragraph = log_normal(149.0, 0.4, batch_size, generator).clamp(min=20)
    paragraph = torch.minimum(paragraph, length - 3 - question)
    inputs = sentence_pair(question, paragraph, length, config.vocabulary, generator)

    # Answers have 3.2 words on average and a third have one, which is a geometric distribution.
    draws = torch.rand(batch_size, 2, generator=generator, dtype=torch.float64)
    question, paragraph = question.squeeze(1), paragraph.squeeze(1)
    answer = 1 + ((1 - draws[:, 0]).log() / math.log(1 - 1 / 3.2)).long()
    answer = torch.minimum(answer.clamp(max=LONGEST_ANSWER), paragraph)
    start = question + 2 + (draws[:, 1] * (paragraph - answer + 1)).long()
    return {"inputs": inputs, "start": start, "end": start + answer - 1}


def span_loss(start: Tensor, end: Tensor, batch: dict[str, Any]) -> Tensor:
    """Mean of the cross-entropies of an answer's first and last token, over all positions."""
    return (F.cross_entropy(start.float(), batch["start"]) + F.cross_entropy(end.float(), batch["end"])) / 2


def decay_groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Matrices, which decay by 0.01, and vectors (all biases and layer normalisations), which do not."""
    held = list(parameters)
    return [
        {"params": [p for p in held if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in held if p.ndim <= 1], "weight_decay": 0.0},
    ]


def hidden_states(encoder: nn.Module, ids: Tensor, segments: Tensor, mask: Tensor) -> Any:
    """The outputs of an encoder of the library.

    The mask goes in ready for the attention: given one number a token, the library asks whether there is
    padding at all, and waits for the device to know.
    """
    return encoder(ids, attention_mask=mask[:, None, None, :].bool(), token_type_ids=segments)


def check_length(name: str, config: EncoderConfig) -> None:
    """Refuse a sequence without room for a question and an answer, or longer than the table of positions."""
    if not SHORTEST <= config.sequence_length <= config.positions:
        raise UsageError(
            f"{name} takes {SHORTEST} to {config.positions} tokens, not {config.sequence_length}; "
            "choose another sequence length"
        )


def text_shape(config: EncoderConfig) -> dict[int, Any]:
    """What `torch.export` may vary of an input [batch, sequence]; the table of positions ends."""
    sequence = torch.export.Dim("sequence", min=SHORTEST, max=config.positions)
    return {0: torch.export.Dim("batch"), 1: sequence}
