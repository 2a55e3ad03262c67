"""ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators (Clark et al., 2020).

The base discriminator (arXiv:2003.10555), fine-tuned on SQuAD v1.1 as in NVIDIA's recipe, which is behind the
published rows. The encoder is transformers' and the same as BERT-Base's; on it sits not BERT's head but the
joint one of the paper's own code: where an answer ends is scored given where it begins, the true beginning in
training, the four best in evaluation. With it the network has 110,075,138 parameters (published: 110M) and
needs 71.6 GFLOP a sequence of 384 in training's forward pass, 1.3 % more than BERT-Base.

As in the recipe: tokens outside the paragraph are barred from both scores, each layer learns at 0.8 of the
rate of the one above it, gradients are clipped at 1. Different: a constant learning rate. Real tokens are
46 % of a batch at 384 tokens, as for BERT (see `squad.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.electra.configuration_electra import ElectraConfig
from transformers.models.electra.modeling_electra import ElectraModel, ElectraPreTrainedModel

from accelmark.networks.base import Network, QualityTarget
from accelmark.networks.language.squad import (
    SEP,
    EncoderConfig,
    check_length,
    decay_groups,
    hidden_states,
    span_loss,
    squad_batch,
    text_shape,
)
from accelmark.networks.registry import register

#: Scores of barred tokens: below any other, and finite, so that a mean over all stays a number.
BARRED = -1e30

LAYER_NORM_EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class ElectraSizes(EncoderConfig):
    """`learning_rate` is that of the head; `layer_decay` is what each layer below has of the one above."""

    layer_decay: float = 0.8
    #: How many beginnings, and ends for each, evaluation follows up.
    beam: int = 4
    task: str | None = "squad"


# The published rows have 32 on the largest accelerators and 16 on the others.
BASE = ElectraSizes(
    batch_size=16,
    parameters=110_075_138,
    sequence_length=384,
    layers=12,
    width=768,
    heads=12,
    inner_width=3072,
    learning_rate=1e-4,
)
TINY = ElectraSizes(
    batch_size=8,
    sequence_length=64,
    layers=2,
    width=64,
    heads=2,
    inner_width=128,
    vocabulary=2000,
    positions=128,
    learning_rate=5e-3,
)


class EndScores(nn.Module):
    """How well an answer ends at each token, given the state of the token at which it begins."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)
        self.score = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, beginning: Tensor) -> Tensor:
        both = torch.cat([hidden, beginning.expand_as(hidden)], -1)
        return self.score(self.norm(self.dense(both).tanh())).squeeze(-1)


class Electra(ElectraPreTrainedModel):
    """Given the answers' first tokens: scores of all tokens to be the first, and the last.

    Without: the best beginnings and, for each, the best ends, as log-probabilities and positions. Ends come
    flat, those of the best beginning first.
    """

    def __init__(self, settings: ElectraConfig, beam: int) -> None:
        super().__init__(settings)
        self.beam = beam
        self.electra = ElectraModel(settings)
        self.start = nn.Linear(settings.hidden_size, 1)
        self.end = EndScores(settings.hidden_size)
        self.post_init()

    def forward(
        self, ids: Tensor, segments: Tensor, mask: Tensor, barred: Tensor, start: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden = hidden_states(self.electra, ids, segments, mask).last_hidden_state
        width = hidden.shape[-1]
        start_scores = self.start(hidden).squeeze(-1).float().masked_fill(barred, BARRED)
        if start is not None:
            beginning = hidden.gather(1, start[:, None, None].expand(-1, 1, width))
            return start_scores, self.end(hidden, beginning).float().masked_fill(barred, BARRED)

        start_best, start_at = start_scores.log_softmax(-1).topk(self.beam, -1)
        beginning = hidden.gather(1, start_at.unsqueeze(-1).expand(-1, -1, width))
        # [batch, beginning, token]. The recipe has tokens before beginnings and transposes the scores.
        every = hidden.unsqueeze(1).expand(-1, self.beam, -1, -1)
        scores = self.end(every, beginning.unsqueeze(2)).float().masked_fill(barred.unsqueeze(1), BARRED)
        end_best, end_at = scores.log_softmax(-1).topk(self.beam, -1)
        return start_best, start_at, end_best.flatten(1), end_at.flatten(1)


@register
class ElectraBase(Network):
    """The base discriminator with the joint head for SQuAD."""

    name = "electra-base"
    title = "ELECTRA-Base"
    domain = "language"
    task = "question answering"
    unit = "sequences"
    dataset = "SQuAD v1.1"
    quality = QualityTarget("F1, %", 92.56)
    paper = "https://arxiv.org/abs/2003.10555"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow2/LanguageModeling/ELECTRA"
    )
    clip_gradient_norm = 1.0
    tasks = {"squad": 384}
    sizes = {"full": BASE, "tiny": TINY}

    def build(self, config: ElectraSizes) -> Electra:
        check_length(self.name, config)
        settings = ElectraConfig(
            vocab_size=config.vocabulary,
            embedding_size=config.width,
            hidden_size=config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.inner_width,
            hidden_act="gelu",
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.dropout,
            max_position_embeddings=config.positions,
            layer_norm_eps=LAYER_NORM_EPSILON,
            attn_implementation="sdpa",
        )
        return Electra(settings, config.beam).train()

    def batch(self, config: ElectraSizes, batch_size: int, generator: torch.Generator) -> dict[str, Any]:
        batch = squad_batch(config, batch_size, generator)
        ids, segments, mask = batch["inputs"]
        # An answer lies in the paragraph; [CLS] stays allowed, for "no answer in this window".
        barred = (segments == 0) | (ids == SEP)
        barred[:, 0] = False
        return {**batch, "inputs": (ids, segments, mask, barred)}

    def units(self, batch: dict[str, Any]) -> int:
        return batch["inputs"][0].shape[0]

    def loss(self, module: nn.Module, batch: dict[str, Any], state: None) -> tuple[Tensor, None]:
        return span_loss(*module(*batch["inputs"], batch["start"]), batch), None

    def optimizer(self, module: nn.Module, config: ElectraSizes) -> torch.optim.Optimizer:
        levels: dict[int, list[nn.Parameter]] = {}
        for name, parameter in module.named_parameters():
            levels.setdefault(depth(name, config.layers), []).append(parameter)
        groups = [
            {**group, "lr": config.learning_rate * config.layer_decay ** (config.layers + 2 - level)}
            for level, parameters in levels.items()
            for group in decay_groups(parameters)
        ]
        return torch.optim.AdamW(groups, lr=config.learning_rate, eps=1e-6, fused=True)

    def inference_inputs(
        self, config: ElectraSizes, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return self.batch(config, batch_size, generator)["inputs"]

    def dynamic_shapes(self, config: ElectraSizes) -> tuple[Any, ...]:
        text = text_shape(config)
        return text, text, text, text


def depth(name: str, layers: int) -> int:
    """Level of a parameter: embeddings 0, the encoder's layers from 1, the head `layers` + 2.

    No parameter has the level between; the recipe counts so.
    """
    layer = re.search(r"encoder\.layer\.(\d+)\.", name)
    if layer:
        return int(layer[1]) + 1
    return 0 if "embeddings" in name else layers + 2
