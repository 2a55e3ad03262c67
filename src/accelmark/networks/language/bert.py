"""BERT: Pre-training of Deep Bidirectional Transformers (Devlin et al., 2018, arXiv:1810.04805).

Layers and initialisation are those of Hugging Face's transformers, which are the paper's: post-normalised
encoder with layer-norm epsilon 1e-12, dropout 0.1 on embeddings, attention and outputs, learnt positions,
masked-LM scores through the word embedding. GELU is the exact one, as in the first release and in the recipes
for PyTorch; later releases of the paper's code approximate it by tanh.

What is published as 110M and 340M parameters is the network as pre-trained: here 110,111,042 and 336,232,258
(the paper's code, and six unused words; its 340M is rounded up). Question answering and named entities have
no use for the pooler and the heads of pre-training and are smaller: 108,893,186 and 334,094,338 for SQuAD.

Batches are synthetic with the lengths of the data sets, see `squad.py`, `pre_training_batch` and
`named_entity_batch`. Real tokens are 46 % of a SQuAD batch at 384 tokens, 84 % and 52 % of pre-training's at
128 and 512, and 17 % of CoNLL-2003's at 128. The rest is padding, on which the published runs compute too.

Different from the recipes: AdamW corrects the moments for their start at zero, which BertAdam does not; the
learning rate is constant. Inference answers with scores, as MLPerf's and TensorRT's engines do; the search
for the best span is left to the host, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import (
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForTokenClassification,
)

from accelmark.networks.base import Network, QualityTarget
from accelmark.networks.lamb import Lamb
from accelmark.networks.language.squad import (
    CLS,
    FIRST_WORD,
    MASK,
    PAD,
    SEP,
    SHORTEST,
    EncoderConfig,
    check_length,
    decay_groups,
    hidden_states,
    log_normal,
    sentence_pair,
    span_loss,
    squad_batch,
    text_shape,
)
from accelmark.networks.language.words import word_pieces
from accelmark.networks.registry import register


@dataclass(frozen=True, kw_only=True)
class BertSizes(EncoderConfig):
    """`learning_rate` is that of fine-tuning with AdamW, `pre_training_rate` that of LAMB."""

    pre_training_rate: float = 6e-3
    task: str | None = "squad"


BASE = BertSizes(
    batch_size=32,
    parameters=108_893_186,
    sequence_length=384,
    layers=12,
    width=768,
    heads=12,
    inner_width=3072,
    learning_rate=3e-5,
)
# The batch of the published rows on accelerators with 16 to 32 GB.
LARGE = BertSizes(
    batch_size=10,
    parameters=334_094_338,
    sequence_length=384,
    layers=24,
    width=1024,
    heads=16,
    inner_width=4096,
    learning_rate=3e-5,
)
BASE_TINY = BertSizes(
    batch_size=8,
    sequence_length=64,
    layers=2,
    width=64,
    heads=2,
    inner_width=128,
    vocabulary=2000,
    positions=128,
    learning_rate=3e-3,
    pre_training_rate=3e-2,
)
LARGE_TINY = BertSizes(
    batch_size=8,
    sequence_length=64,
    layers=3,
    width=64,
    heads=4,
    inner_width=128,
    vocabulary=2000,
    positions=128,
    learning_rate=3e-3,
    pre_training_rate=3e-2,
)

#: For each task of pre-training: at most so many predictions, at so many tokens.
PREDICTIONS = {
    "pre-training-phase-1": (20, 128),
    "pre-training-phase-2": (80, 512),
    "pre-training": (20, 128),
    "pre-training-mlperf": (76, 512),
}

#: How often CoNLL-2003's training set has O, then B- and I- of places, others, organisations and persons.
ENTITY_COUNTS = (169_578, 7_140, 1_157, 3_438, 1_155, 6_321, 3_704, 6_600, 4_528)

#: Marks positions without a label: torch's default for what a cross-entropy leaves out.
UNLABELLED = -100


class PreTraining(BertForPreTraining):
    """Scores of the words at the masked positions, and of whether the second part follows the first."""

    def forward(
        self, ids: Tensor, segments: Tensor, mask: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        outputs = hidden_states(self.bert, ids, segments, mask)
        hidden = outputs.last_hidden_state
        # Scoring all tokens against the vocabulary would cost five times as much and serve nothing.
        masked = hidden.gather(1, positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
        return self.cls(masked, outputs.pooler_output)


class QuestionAnswering(BertForQuestionAnswering):
    """Scores of each token to be the answer's first, and its last."""

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        hidden = hidden_states(self.bert, ids, segments, mask).last_hidden_state
        start, end = self.qa_outputs(hidden).unbind(-1)
        return start, end


class NamedEntities(BertForTokenClassification):
    """Scores of each token's label."""

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        hidden = hidden_states(self.bert, ids, segments, mask).last_hidden_state
        return self.classifier(self.dropout(hidden))


def pre_training_batch(
    config: EncoderConfig, predictions: int, batch_size: int, generator: torch.Generator
) -> dict[str, Any]:
    """Pairs of text, a part of it masked; half of the second parts do not follow the first.

    One distribution of text lengths, cut at the sequence's, gives the shares of padding measured in Wikipedia
    and BookCorpus at both lengths, 17 % at 128 and 48 % at 512 tokens
    (https://openreview.net/forum?id=3nzKUh9a4M), and a quarter of sequences that are full at 512
    (arXiv:2107.02027).
    """
    length = config.sequence_length
    text = log_normal(220.0, 1.25, batch_size, generator).clamp(SHORTEST, length) - 3
    first = 1 + (torch.rand(batch_size, 1, generator=generator) * (text - 1)).long()
    ids, segments, mask = sentence_pair(first, text - first, length, config.vocabulary, generator)

    # 15 % of the tokens are predicted, special ones among those counted but not among those chosen.
    wanted = ((text + 3) * 0.15).round().long().clamp(1, predictions)
    order = torch.rand(ids.shape, generator=generator)
    order[(ids == CLS) | (ids == SEP) | (ids == PAD)] = -1.0
    positions = order.topk(predictions, dim=1).indices
    chosen = torch.arange(predictions) < wanted
    positions = torch.where(chosen, positions, 0)
    words = torch.where(chosen, ids.gather(1, positions), UNLABELLED)

    # Of those, 80 % are masked, 10 % replaced by any other word, 10 % left.
    draw = torch.rand(positions.shape, generator=generator)
    other = torch.randint(FIRST_WORD, config.vocabulary, positions.shape, generator=generator)
    shown = torch.where(draw < 0.8, MASK, torch.where(draw < 0.9, other, words))
    # Where nothing was chosen, the position is that of [CLS], which stays.
    ids = ids.scatter(1, positions, torch.where(chosen, shown, CLS))
    follows = torch.randint(2, (batch_size,), generator=generator)
    return {"inputs": (ids, segments, mask, positions), "words": words, "follows": follows}


def named_entity_batch(config: EncoderConfig, batch_size: int, generator: torch.Generator) -> dict[str, Any]:
    """Sentences with a label for the first piece of each word.

    CoNLL-2003's training set has 203,621 words in 14,041 sentences, 14.5 on average with a deviation of 12,
    each about 1.4 word pieces. Labels have the data set's frequencies, independently of each other.
    """
    length = config.sequence_length
    position = torch.arange(length)
    pieces = log_normal(15.9, 0.7, batch_size, generator).clamp(1, length - 2)
    ids = word_pieces((batch_size, length), FIRST_WORD, config.vocabulary, generator)
    ids[:, 0] = CLS
    ids = torch.where(position == pieces + 1, SEP, ids)
    ids = torch.where(position > pieces + 1, PAD, ids)
    mask = (position <= pieces + 1).long()

    begins = torch.rand(ids.shape, generator=generator) < 1 / 1.4
    begins[:, 1] = True
    weights = torch.tensor(ENTITY_COUNTS, dtype=torch.float64)
    drawn = torch.multinomial(weights, ids.numel(), replacement=True, generator=generator).view(ids.shape)
    labelled = begins & (position > 0) & (position <= pieces)
    return {
        "inputs": (ids, torch.zeros_like(ids), mask),
        "labels": torch.where(labelled, drawn, UNLABELLED),
    }


class BertNetwork(Network):
    """What both sizes share. A batch tells by its labels which task it is of."""

    domain = "language"
    task = "question answering"
    unit = "sequences"
    dataset = "SQuAD v1.1"
    paper = "https://arxiv.org/abs/1810.04805"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/LanguageModeling/BERT"
    clip_gradient_norm = 1.0
    tasks = {
        "squad": 384,
        "question-answering": 384,
        "pre-training-phase-1": 128,
        "pre-training-phase-2": 512,
        "pre-training": 128,
        "pre-training-mlperf": 512,
        "named-entity-recognition": 128,
    }

    def build(self, config: BertSizes) -> nn.Module:
        check_length(self.name, config)
        settings = BertConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.inner_width,
            hidden_act="gelu",
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.dropout,
            max_position_embeddings=config.positions,
            layer_norm_eps=1e-12,
            num_labels=len(ENTITY_COUNTS) if config.task == "named-entity-recognition" else 2,
            attn_implementation="sdpa",
        )
        if config.task in PREDICTIONS:
            # Here the vocabulary is a dimension of a matrix product, which tensor cores want divisible by
            # eight: the recipes add six unused entries, 30,522 to 30,528.
            settings.vocab_size = -(-config.vocabulary // 8) * 8
            return PreTraining(settings).train()
        if config.task == "named-entity-recognition":
            return NamedEntities(settings).train()
        return QuestionAnswering(settings).train()

    def batch(self, config: BertSizes, batch_size: int, generator: torch.Generator) -> dict[str, Any]:
        if config.task in PREDICTIONS:
            most, tokens = PREDICTIONS[config.task]
            predictions = max(1, config.sequence_length * most // tokens)
            return pre_training_batch(config, predictions, batch_size, generator)
        if config.task == "named-entity-recognition":
            return named_entity_batch(config, batch_size, generator)
        return squad_batch(config, batch_size, generator)

    def units(self, batch: dict[str, Any]) -> int:
        return batch["inputs"][0].shape[0]

    def loss(self, module: nn.Module, batch: dict[str, Any], state: None) -> tuple[Tensor, None]:
        if "start" in batch:
            return span_loss(*module(*batch["inputs"]), batch), None
        if "labels" in batch:
            scores = module(*batch["inputs"]).float()
            return F.cross_entropy(scores.transpose(1, 2), batch["labels"], ignore_index=UNLABELLED), None
        words, follows = module(*batch["inputs"])
        masked = F.cross_entropy(
            words.float().flatten(0, 1), batch["words"].flatten(), ignore_index=UNLABELLED
        )
        return masked + F.cross_entropy(follows.float(), batch["follows"]), None

    def optimizer(self, module: nn.Module, config: BertSizes) -> torch.optim.Optimizer:
        if config.task in PREDICTIONS:
            return Lamb(decay_groups(module.parameters()), lr=config.pre_training_rate)
        return torch.optim.AdamW(
            decay_groups(module.parameters()), lr=config.learning_rate, eps=1e-6, fused=True
        )

    def inference_inputs(
        self, config: BertSizes, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        return self.batch(config, batch_size, generator)["inputs"]

    def dynamic_shapes(self, config: BertSizes) -> tuple[Any, ...]:
        text = text_shape(config)
        if config.task in PREDICTIONS:
            return text, text, text, {0: text[0], 1: torch.export.Dim("predictions")}
        return text, text, text


@register
class BertBase(BertNetwork):
    """The paper's smaller model."""

    name = "bert-base"
    title = "BERT-Base"
    # The paper's own: nobody published a run of this size beside the rows.
    quality = QualityTarget("F1, %", 88.5)
    sizes = {"full": BASE, "tiny": BASE_TINY}


@register
class BertLarge(BertNetwork):
    """The paper's larger model."""

    name = "bert-large"
    title = "BERT-Large"
    # What the published runs reach: 91.0 to 91.3 with PyTorch, 91.2 with TensorFlow.
    quality = QualityTarget("F1, %", 91.0)
    sizes = {"full": LARGE, "tiny": LARGE_TINY}
