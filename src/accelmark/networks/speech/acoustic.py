"""Convolutions over time that spell what they hear: what Jasper and QuartzNet are made of.

A network is a row of blocks. A block repeats convolution, batch normalisation, rectifier and dropout, and
adds its input, brought to its channels by a convolution of one frame, before its last rectifier; in a dense
network the inputs of all blocks before it, too (Jasper, arXiv:1904.03288, figure 3). In a separable one each
convolution is one over time for each channel and one over channels for each frame (QuartzNet,
arXiv:1910.10261). Frames behind an utterance's end are set to 0 before each convolution, as in the recipes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network
from accelmark.networks.novograd import NovoGrad
from accelmark.networks.speech.clips import DEV_CLEAN, LIBRISPEECH, utterances, voices
from accelmark.networks.speech.features import RecognitionFeatures, frame_counts, real_frames

#: Space, 26 letters, the apostrophe; the last class is CTC's blank.
LETTERS = 28
BLANK = LETTERS

#: Frames of a batch are padded to a multiple of this, for the sake of matrix units.
ALIGN = 16


@dataclass(frozen=True)
class Block:
    """`repeats` convolutions of `kernel` frames; only a `residual` block adds what came before."""

    channels: int
    kernel: int
    repeats: int = 1
    dropout: float = 0.0
    stride: int = 1
    dilation: int = 1
    residual: bool = True
    separable: bool = False


@dataclass(frozen=True, kw_only=True)
class AcousticConfig(Config):
    """`scale` shortens the utterances; two masks each hide up to so many mel bands and frames."""

    blocks: tuple[Block, ...]
    dense: bool
    masked_mels: int
    masked_frames: int
    mels: int = 64
    scale: float = 1.0


class SpecAugment(nn.Module):
    """Hides two bands of frequencies and two stretches of time of each utterance (Park et al., 2019)."""

    def __init__(self, mels: int, frames: int) -> None:
        super().__init__()
        self.mels, self.frames = mels, frames

    def forward(self, features: Tensor) -> Tensor:
        if not self.training:
            return features
        bands = ~hidden(features, 1, self.mels)
        times = ~hidden(features, 2, self.frames)
        return features * bands.unsqueeze(2) * times.unsqueeze(1)


def hidden(features: Tensor, axis: int, widest: int) -> Tensor:
    """Which places along an axis two masks of random width and position cover, [rows, places]."""
    rows, places = features.shape[0], features.shape[axis]
    draws = torch.rand(2, rows, 2, 1, device=features.device)
    width = (draws[0] * (widest + 1)).floor()
    start = (draws[1] * (places - width).clamp(min=1)).floor()
    place = torch.arange(places, device=features.device)
    return ((place >= start) & (place < start + width)).any(1)


class Convolutions(nn.Module):
    """One convolution over time, or its two halves if separable, and batch normalisation."""

    def __init__(self, inputs: int, block: Block, kernel: int, stride: int, dilation: int) -> None:
        super().__init__()
        over_time = {"stride": stride, "dilation": dilation, "padding": kernel // 2 * dilation, "bias": False}
        if block.separable and kernel > 1:
            self.parts = nn.ModuleList(
                [
                    nn.Conv1d(inputs, inputs, kernel, groups=inputs, **over_time),
                    nn.Conv1d(inputs, block.channels, 1, bias=False),
                ]
            )
        else:
            self.parts = nn.ModuleList([nn.Conv1d(inputs, block.channels, kernel, **over_time)])
        for part in self.parts:
            nn.init.xavier_uniform_(part.weight)
        self.norm = nn.BatchNorm1d(block.channels, eps=1e-3)

    def forward(self, x: Tensor, real: Tensor, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What comes out, which of its places are real, and how many."""
        for part in self.parts:
            x = part(x * real)
            if part.stride[0] > 1:
                frames = -(-frames // part.stride[0])
                real = real_frames(x, frames)
        return self.norm(x), real, frames


class AcousticBlock(nn.Module):
    """Inputs [rows, channels, frames], of this block last and of those before it, to its output.

    With it come which of its places are real, and how many.
    """

    def __init__(self, block: Block, inputs: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Convolutions(
                inputs[-1] if i == 0 else block.channels, block, block.kernel, block.stride, block.dilation
            )
            for i in range(block.repeats)
        )
        sides = inputs if block.residual else []
        self.sides = nn.ModuleList(Convolutions(channels, block, 1, 1, 1) for channels in sides)
        self.drop = nn.Dropout(block.dropout)

    def forward(
        self, inputs: Sequence[Tensor], real: Tensor, frames: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = inputs[-1]
        for i, layer in enumerate(self.layers):
            x, real, frames = layer(x if i == 0 else self.drop(x.relu()), real, frames)
        for side, before in zip(self.sides, inputs, strict=False):
            x = x + side(before, real, frames)[0]
        return self.drop(x.relu()), real, frames


class AcousticNetwork(nn.Module):
    """Audio [rows, samples] at 16 kHz and its lengths to log-probabilities of letters, [frames, rows, 29]."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.features = RecognitionFeatures(config.mels)
        self.augment = SpecAugment(config.masked_mels, config.masked_frames)
        self.blocks = nn.ModuleList()
        self.dense = config.dense
        channels, before = config.mels, []
        for block in config.blocks:
            before = [*before, channels] if block.residual and config.dense else [channels]
            self.blocks.append(AcousticBlock(block, before))
            before = before if block.residual else []
            channels = block.channels
        self.letters = nn.Conv1d(channels, LETTERS + 1, 1)
        nn.init.xavier_uniform_(self.letters.weight)

    def forward(self, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            features, frames = self.features(audio, lengths)
            features = self.augment(features)
        return self.spell(features, frames)

    def spell(self, x: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Features [rows, mels, frames] and how many are real to logarithms of chances, and how many are."""
        real = real_frames(x, frames)
        before: list[Tensor] = []
        for block in self.blocks:
            before = [*before, x] if len(block.sides) and self.dense else [x]
            x, real, frames = block(before, real, frames)
            before = before if len(block.sides) else []
        # CTC adds up hundreds of chances, which half precision would not tell apart.
        return self.letters(x).permute(2, 0, 1).float().log_softmax(-1), frames


class GreedySpeller(nn.Module):
    """Audio and its lengths to letters [rows, frames], `BLANK` behind the last, and how many they are."""

    def __init__(self, module: AcousticNetwork) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        chances, frames = self.module(audio, lengths)
        best = chances.argmax(-1).T
        real = torch.arange(best.shape[1], device=best.device) < frames[:, None]
        return collapsed(torch.where(real, best.int(), BLANK).long())


def collapsed(best: Tensor) -> tuple[Tensor, Tensor]:
    """Classes of frames [rows, frames] to letters: each once while it lasts, and no blanks; and how many."""
    before = F.pad(best[:, :-1], (1, 0), value=BLANK)
    kept = ((best != before) & (best != BLANK)).long()
    counts = kept.sum(1)
    # What is kept goes to its place; all else to one behind the last, which is cut off.
    place = kept * (kept.cumsum(1) - 1) + (1 - kept) * best.shape[1]
    letters = torch.full_like(F.pad(best, (0, 1)), BLANK).scatter(1, place, best)
    return letters[:, :-1], counts


class Recogniser(Network):
    """What Jasper and QuartzNet share as benchmarks: NVIDIA's recipes on LibriSpeech."""

    domain = "speech"
    task = "speech recognition"
    unit = "sequences"
    dataset = "LibriSpeech"

    def build(self, config: AcousticConfig) -> AcousticNetwork:
        return AcousticNetwork(config)

    def batch(self, config: AcousticConfig, batch_size: int, generator: torch.Generator) -> dict:
        samples, characters = utterances(LIBRISPEECH, batch_size, config.scale, generator)
        frames = frame_counts(samples)
        strides = [block.stride for block in config.blocks]
        for stride in strides:
            frames = (frames + stride - 1) // stride
        audio = voices(samples, RecognitionFeatures.RATE, generator)
        aligned = RecognitionFeatures.HOP * ALIGN
        texts = torch.randint(LETTERS, (batch_size, int(characters.max())), generator=generator)
        return {
            "audio": F.pad(audio, (0, -(audio.shape[1] + 1) % aligned)),
            "lengths": samples,
            "texts": texts,
            # CTC wants them where the program runs; a tensor on the device would have to be waited for.
            "frames": frames.tolist(),
            "characters": characters.tolist(),
        }

    def units(self, batch: dict) -> int:
        return len(batch["audio"])

    def loss(self, module: nn.Module, batch: dict, state: None) -> tuple[Tensor, None]:
        chances, _ = module(batch["audio"], batch["lengths"])
        losses = F.ctc_loss(
            chances, batch["texts"], batch["frames"], batch["characters"], blank=BLANK, reduction="none"
        )
        return losses.mean(), None

    def optimizer(self, module: nn.Module, config: AcousticConfig) -> torch.optim.Optimizer:
        return NovoGrad(module.parameters(), lr=0.01)

    def inference_inputs(
        self, config: AcousticConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        samples, _ = utterances(DEV_CLEAN, batch_size, config.scale, generator)
        return voices(samples, RecognitionFeatures.RATE, generator), samples

    def inference(self, module: nn.Module, config: AcousticConfig) -> GreedySpeller:
        return GreedySpeller(module)

    def dynamic_shapes(self, config: AcousticConfig) -> tuple:
        batch = torch.export.Dim("batch")
        return {0: batch, 1: torch.export.Dim("samples", min=2000)}, {0: batch}


def rows_of_blocks(shapes: Sequence[tuple[int, int, int, float]], **others: bool) -> Iterator[Block]:
    """Blocks of five convolutions each: how many, their channels, kernel and dropout."""
    for count, channels, kernel, dropout in shapes:
        yield from [Block(channels, kernel, 5, dropout, **others)] * count
