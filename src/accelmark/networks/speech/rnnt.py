"""RNN-T: Sequence Transduction with Recurrent Neural Networks (Graves, 2012), as in MLPerf inference v1.0.

Three frames of 80 mel bands are one input; two LSTM layers of 1024, two steps put into one, three layers
more; two LSTM layers of 320 over the letters so far; and a joint layer of 512 on both that says, for each
step and letter, which letter is next or that none is (arXiv:1211.3711; the streaming form of He et al., 2018,
arXiv:1811.06621). 45,323,037 parameters as the reference's, published as 45.3 million.

Inference decodes greedily, as the reference: at most 30 letters a step. All utterances of a batch do so side
by side, where the reference takes one after the other. An untrained network may spell without end, so a text
has no more letters than fast speech.

Different in training, for which MLPerf published no recipe with this network: LAMB as in MLPerf's of RNN-T, a
constant rate, SpecAugment as Jasper's. The joint layer multiplies audio and letters before they are put
together, not each pair of them: the same sums, with T + U products in place of T x U. The transducer loss is
torchaudio's, one kernel for CPUs and one for CUDA; it asks for the lengths' largest values, so a step waits
for the device once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.functional import rnnt_loss

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.lamb import Lamb
from accelmark.networks.lstm import LSTM, one_step
from accelmark.networks.registry import register
from accelmark.networks.speech.acoustic import BLANK, LETTERS, SpecAugment
from accelmark.networks.speech.clips import DEV_CLEAN, LIBRISPEECH, utterances, voices
from accelmark.networks.speech.features import RecognitionFeatures

#: Frames of 10 ms that are one input, and steps that the encoder puts into one.
SPLICED, STACKED = 3, 2

#: Most letters for one step of the encoder, and for a second of speech (fast speech has 25).
LETTERS_A_STEP, LETTERS_A_SECOND = 30, 30


@dataclass(frozen=True, kw_only=True)
class RNNTConfig(Config):
    """`scale` shortens the utterances; two masks each hide up to so many mel bands and frames."""

    width: int
    letters_width: int
    joint_width: int
    masked_mels: int
    masked_frames: int
    learning_rate: float
    mels: int = 80
    layers: tuple[int, int] = (2, 3)
    dropout: float = 0.32
    scale: float = 1.0


class Layers(nn.Module):
    """LSTM layers with dropout after each, [rows, steps, inputs] to [rows, steps, width]."""

    def __init__(self, inputs: int, width: int, count: int, dropout: float) -> None:
        super().__init__()
        self.lstms = nn.ModuleList(LSTM(inputs if i == 0 else width, width) for i in range(count))
        self.drop = nn.Dropout(dropout)
        for lstm in self.lstms:
            # At first nothing is forgotten: of the two biases that are added, one begins at 1.
            with torch.no_grad():
                lstm.bias_ih_l0[width : 2 * width] = 1.0
                lstm.bias_hh_l0[width : 2 * width] = 0.0

    def forward(self, x: Tensor) -> Tensor:
        for lstm in self.lstms:
            x = self.drop(lstm(x))
        return x


def together(x: Tensor, count: int) -> Tensor:
    """Each `count` steps of [rows, steps, width] as one of `count` times the width, zeros behind the last."""
    missing = -x.shape[1] % count
    return F.pad(x, (0, 0, 0, missing)).unflatten(1, (-1, count)).flatten(2)


class RNNT(nn.Module):
    """Audio [rows, samples] at 16 kHz, its lengths and texts [rows, letters] to scores of what is next.

    Scores are [rows, steps, letters + 1, 29], with how many steps are real.
    """

    def __init__(self, config: RNNTConfig) -> None:
        super().__init__()
        self.features = RecognitionFeatures(config.mels)
        self.augment = SpecAugment(config.masked_mels, config.masked_frames)
        before, after = config.layers
        self.lower = Layers(SPLICED * config.mels, config.width, before, config.dropout)
        self.upper = Layers(STACKED * config.width, config.width, after, config.dropout)
        # No text begins with a blank, so it needs no vector: what precedes the first letter is zeros.
        self.embedding = nn.Embedding(LETTERS, config.letters_width)
        self.letters = Layers(config.letters_width, config.letters_width, 2, config.dropout)
        self.joint = nn.Linear(config.width + config.letters_width, config.joint_width)
        self.drop = nn.Dropout(config.dropout)
        self.scores = nn.Linear(config.joint_width, LETTERS + 1)

    def forward(self, audio: Tensor, lengths: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        heard, steps = self.hear(audio, lengths)
        spelt = self.letters(F.pad(self.embedding(texts), (0, 0, 1, 0)))
        return self.next_letter(heard.unsqueeze(2), self.of_letters(spelt).unsqueeze(1)), steps

    def hear(self, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What audio gives to the joint layer, [rows, steps, joint width], and how many steps are real."""
        with torch.no_grad():
            features, frames = self.features(audio, lengths)
            features = self.augment(features).transpose(1, 2)
        x = self.lower(together(features, SPLICED))
        x = self.upper(together(x, STACKED))
        weight = self.joint.weight[:, : x.shape[-1]]
        inputs = (frames + SPLICED - 1) // SPLICED
        return F.linear(x, weight, self.joint.bias), (inputs + STACKED - 1) // STACKED

    def of_letters(self, spelt: Tensor) -> Tensor:
        """What the letters give to the joint layer."""
        return F.linear(spelt, self.joint.weight[:, -spelt.shape[-1] :])

    def next_letter(self, heard: Tensor, spelt: Tensor) -> Tensor:
        """Scores of the letters, and last of none, from what audio and letters give to the joint layer."""
        return self.scores(self.drop((heard + spelt).relu()))


class GreedyTransducer(nn.Module):
    """Audio and its lengths to letters [rows, letters], `BLANK` behind the last, and how many they are."""

    def __init__(self, module: RNNT) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        net = self.module
        heard, steps = net.hear(audio, lengths)
        (rows, longest, _), device = heard.shape, heard.device
        most = longest * RecognitionFeatures.HOP * SPLICED * STACKED * LETTERS_A_SECOND
        places = torch.arange(most // RecognitionFeatures.RATE, device=device)
        first, second = net.letters.lstms
        zeros = heard.new_zeros(4, rows, net.embedding.embedding_dim)
        hidden, cell = one_step(first, zeros[0], zeros[0], zeros[1])
        upper, upper_cell = one_step(second, hidden, zeros[2], zeros[3])
        none = torch.zeros(rows, dtype=torch.long, device=device)

        def going(step: Tensor, here: Tensor, count: Tensor, letters: Tensor, *state: Tensor) -> Tensor:
            return ((step < steps) & (count < letters.shape[1])).any()

        def advance(
            step: Tensor, here: Tensor, count: Tensor, letters: Tensor, *state: Tensor
        ) -> tuple[Tensor, ...]:
            last = heard.shape[1] - 1
            at = step.clamp(max=last)[:, None, None].expand(-1, 1, heard.shape[2])
            now = heard.gather(1, at).squeeze(1)
            best = net.next_letter(now, net.of_letters(state[2])).argmax(-1)
            running = (step < steps) & (count < letters.shape[1])
            spells = running & (best != BLANK)
            letters = torch.where((places == count[:, None]) & spells[:, None], best[:, None], letters)
            # Every row takes a step with its letter, and those that spelt none stay as they were.
            hidden, cell = one_step(first, net.embedding(best.clamp(max=LETTERS - 1)), state[0], state[1])
            upper, upper_cell = one_step(second, hidden, state[2], state[3])
            after = (hidden, cell, upper, upper_cell)
            kept = [torch.where(spells[:, None], new, old) for new, old in zip(after, state, strict=True)]
            here = torch.where(spells, here + 1, 0)
            moves = running & (~spells | (here >= LETTERS_A_STEP))
            here = torch.where(moves, 0, here)
            return step + moves.long(), here, count + spells.long(), letters, *kept

        letters = torch.full((rows, len(places)), BLANK, device=device)
        carried = (none, none.clone(), none.clone(), letters, hidden, cell, upper, upper_cell)
        if torch.compiler.is_exporting():
            carried = torch.while_loop(going, advance, carried)
        else:
            while going(*carried):
                carried = advance(*carried)
        return carried[3], carried[2]


@register
class RNNTransducer(Network):
    """MLPerf inference's recogniser, on LibriSpeech."""

    name = "rnnt"
    title = "RNN-T"
    domain = "speech"
    task = "speech recognition"
    unit = "samples"
    dataset = "LibriSpeech"
    quality = QualityTarget("dev-clean WER, %", 7.452)
    paper = "https://arxiv.org/abs/1211.3711"
    reference = "https://github.com/mlcommons/inference/tree/r1.0/speech_recognition/rnnt"
    sizes = {
        "full": RNNTConfig(
            batch_size=32,
            width=1024,
            letters_width=320,
            joint_width=512,
            masked_mels=20,
            masked_frames=75,
            learning_rate=4e-3,
        ),
        "tiny": RNNTConfig(
            batch_size=8,
            width=64,
            letters_width=32,
            joint_width=48,
            masked_mels=6,
            masked_frames=8,
            learning_rate=2e-2,
            dropout=0.1,
            scale=0.1,
        ),
    }

    def build(self, config: RNNTConfig) -> RNNT:
        return RNNT(config)

    def batch(self, config: RNNTConfig, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        samples, characters = utterances(LIBRISPEECH, batch_size, config.scale, generator)
        texts = torch.randint(LETTERS, (batch_size, int(characters.max())), generator=generator)
        return {
            "audio": voices(samples, RecognitionFeatures.RATE, generator),
            "lengths": samples,
            "texts": texts,
            "characters": characters,
        }

    def units(self, batch: dict[str, Tensor]) -> int:
        return len(batch["audio"])

    def loss(self, module: nn.Module, batch: dict[str, Tensor], state: None) -> tuple[Tensor, None]:
        scores, steps = module(batch["audio"], batch["lengths"], batch["texts"])
        losses = rnnt_loss(
            scores.float(),
            batch["texts"].int(),
            steps.int(),
            batch["characters"].int(),
            blank=BLANK,
            reduction="none",
        )
        return losses.mean(), None

    def optimizer(self, module: nn.Module, config: RNNTConfig) -> torch.optim.Optimizer:
        return Lamb(
            module.parameters(), lr=config.learning_rate, betas=(0.9, 0.999), eps=1e-9, weight_decay=1e-3
        )

    def inference_inputs(
        self, config: RNNTConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        samples, _ = utterances(DEV_CLEAN, batch_size, config.scale, generator)
        return voices(samples, RecognitionFeatures.RATE, generator), samples

    def inference(self, module: nn.Module, config: RNNTConfig) -> GreedyTransducer:
        return GreedyTransducer(module)

    def dynamic_shapes(self, config: RNNTConfig) -> tuple:
        # An LSTM exports as one step after another, so utterances keep their length.
        batch = {0: torch.export.Dim("batch")}
        return batch, batch


@torch.library.register_fake("torchaudio::rnnt_loss_forward")
def losses_without_values(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:
    """What torchaudio's loss gives, in shapes: for steps on tensors without values. It has none itself."""
    return logits.new_empty(logits.shape[0]), torch.empty_like(logits)
