"""FastPitch: Parallel Text-to-speech with Pitch Prediction (Lancucki, 2021), on LJSpeech.

Six transformer layers of 384 over the letters, with one head of 64 and convolutions of 3 in place of
products; two convolutions each say how long a letter lasts and how high it is; its vector, with its pitch, is
repeated so often, and six layers more make the spectrogram, all frames at once (arXiv:2006.06873). NVIDIA's
PyTorch recipe of April 2021, in which durations come from Tacotron 2 and pitch is a mean for each letter: 148
symbols, LAMB with weight decay 1e-6, gradients clipped to 1000, losses of duration and pitch a tenth each.
44,766,546 parameters; nobody published a count for this version.

Different: a constant learning rate, below the recipe's peak of 0.1 that it warms up to; synthetic texts,
durations, pitch and spectrograms with LJSpeech's lengths. Inference brings speech to a reader's usual pace of
66 ms a letter, so that an untrained network speaks as long as a trained one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.lamb import Lamb
from accelmark.networks.registry import register
from accelmark.networks.speech.clips import frames_to_speak, spectrograms, spoken_texts, texts

MELS = 80
#: Longest that a letter lasts, in frames.
LONGEST = 75.0
#: How much the errors of durations and of pitches count.
SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class FastPitchConfig(Config):
    """`scale` shortens the texts."""

    width: int
    head_width: int
    inner_width: int
    predictor_width: int
    layers: int = 6
    learning_rate: float = 0.01
    symbols: int = 148
    dropout: float = 0.1
    scale: float = 1.0


class Attention(nn.Module):
    """One head, and the normalised sum with its input: [rows, places, width]."""

    def __init__(self, config: FastPitchConfig) -> None:
        super().__init__()
        self.inputs = nn.Linear(config.width, 3 * config.head_width)
        self.output = nn.Linear(config.head_width, config.width, bias=False)
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        self.dropout_p = config.dropout

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        query, key, value = (each.unsqueeze(1) for each in self.inputs(x).chunk(3, -1))
        found = F.scaled_dot_product_attention(
            query, key, value, attn_mask=real, dropout_p=self.dropout_p if self.training else 0.0
        )
        return self.norm(x + self.drop(self.output(found.squeeze(1))))


class Layer(nn.Module):
    """Attention and two convolutions of 3 places; padding is 0 after each."""

    def __init__(self, config: FastPitchConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.inner = nn.Conv1d(config.width, config.inner_width, 3, padding=1)
        self.outer = nn.Conv1d(config.inner_width, config.width, 3, padding=1)
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, real: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask) * real
        convolved = self.outer(self.inner(x.transpose(1, 2)).relu()).transpose(1, 2)
        return self.norm(x + self.drop(convolved)) * real


class Transformer(nn.Module):
    """Vectors [rows, places, width] and which are real, [rows, places], to others."""

    def __init__(self, config: FastPitchConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        column = real.unsqueeze(2).to(x.dtype)
        x = x + positions(x) * column
        for layer in self.layers:
            x = layer(x, column, real[:, None, None])
        return x


def positions(x: Tensor) -> Tensor:
    """Sines and cosines for each place, [places, width]."""
    width = x.shape[-1]
    rates = 10_000 ** (-torch.arange(0, width, 2, device=x.device) / width)
    angles = torch.arange(x.shape[1], device=x.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype)


class Predictor(nn.Module):
    """One number for each letter: [rows, letters, width] to [rows, letters]."""

    def __init__(self, config: FastPitchConfig) -> None:
        super().__init__()
        widths = [config.width, config.predictor_width, config.predictor_width]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inputs, outputs, 3, padding=1) for inputs, outputs in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:])
        self.output = nn.Linear(widths[-1], 1)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        x = x * real.unsqueeze(2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self.drop(norm(convolution(x.transpose(1, 2)).relu().transpose(1, 2)))
        return self.output(x).squeeze(2).float() * real


class FastPitch(nn.Module):
    """Texts, their lengths, durations and pitches of letters to spectrograms [rows, 80, frames] and guesses.

    Guesses are the logarithms of durations plus one, and the pitches, [rows, letters] each.
    """

    def __init__(self, config: FastPitchConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.symbols, config.width, padding_idx=0)
        self.letters, self.frames = Transformer(config), Transformer(config)
        self.duration, self.pitch = Predictor(config), Predictor(config)
        self.pitch_embedding = nn.Conv1d(1, config.width, 3, padding=1)
        self.output = nn.Linear(config.width, MELS)

    def forward(
        self, text: Tensor, lengths: Tensor, durations: Tensor, pitch: Tensor, spectrogram: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, real = self.read(text, lengths)
        guesses = self.duration(x, real), self.pitch(x, real)
        x = self.with_pitch(x, pitch)
        return self.speak(x, durations.cumsum(1), spectrogram.shape[2]), *guesses

    def read(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of letters, and which are real."""
        real = torch.arange(text.shape[1], device=text.device) < lengths[:, None]
        return self.letters(self.embedding(text), real), real

    def with_pitch(self, x: Tensor, pitch: Tensor) -> Tensor:
        """Vectors of letters with their pitch."""
        return x + self.pitch_embedding(pitch.unsqueeze(1).to(x.dtype)).transpose(1, 2)

    def speak(self, x: Tensor, ends: Tensor, frames: int) -> Tensor:
        """Spectrograms of so many frames, of letters that end before the frames `ends`, [rows, letters]."""
        place = torch.arange(frames, device=x.device)
        begins = F.pad(ends[:, :-1], (1, 0))
        lasting = (begins.unsqueeze(2) <= place) & (place < ends.unsqueeze(2))
        real = place < ends[:, -1:]
        x = lasting.to(x.dtype).transpose(1, 2) @ x
        return self.output(self.frames(x, real)).transpose(1, 2)


class Speaker(nn.Module):
    """Texts [rows, letters] and their lengths to spectrograms [rows, 80, frames] and their lengths."""

    def __init__(self, module: FastPitch) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        net = self.module
        x, real = net.read(text, lengths)
        durations = (net.duration(x, real).exp() - 1).clamp(0.01, LONGEST) * real
        wanted = frames_to_speak(lengths)
        durations = durations * (wanted / durations.sum(1))[:, None]
        ends = durations.cumsum(1).round().long()
        x = net.with_pitch(x, net.pitch(x, real))
        return net.speak(x, ends, frames_to_speak(text.shape[1])), wanted


@register
class FastPitchNetwork(Network):
    """NVIDIA's recipe on LJSpeech."""

    name = "fastpitch"
    title = "FastPitch"
    domain = "speech"
    task = "spectrograms from text"
    unit = "mel frames"
    inference_unit = "texts"
    dataset = "LJSpeech 1.1"
    quality = QualityTarget("training loss", 0.18)
    paper = "https://arxiv.org/abs/2006.06873"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/SpeechSynthesis/FastPitch"
    scenarios = ("training", "inference", "speech-synthesis")
    clip_gradient_norm = 1000.0
    sizes = {
        "full": FastPitchConfig(
            batch_size=64, width=384, head_width=64, inner_width=1536, predictor_width=256
        ),
        "tiny": FastPitchConfig(
            batch_size=4,
            width=32,
            head_width=16,
            inner_width=64,
            predictor_width=16,
            layers=2,
            learning_rate=0.05,
            scale=0.1,
        ),
    }

    def build(self, config: FastPitchConfig) -> FastPitch:
        return FastPitch(config)

    def batch(self, config: FastPitchConfig, batch_size: int, generator: torch.Generator) -> dict:
        lengths, frames = spoken_texts(batch_size, config.scale, generator)
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        # A letter lasts half to twice its clip's mean; the ends are rounded, so that all add up.
        shares = (0.5 + 1.5 * torch.rand(real.shape, generator=generator)) * real
        ends = (shares.cumsum(1) / shares.sum(1, keepdim=True) * frames[:, None]).round().long()
        durations = ends.diff(dim=1, prepend=torch.zeros(batch_size, 1, dtype=torch.long))
        return {
            "text": texts(lengths, config.symbols, generator),
            "lengths": lengths,
            "durations": durations,
            # Of mean 0 and deviation 1 over the corpus.
            "pitch": torch.randn(real.shape, generator=generator) * real,
            "spectrogram": spectrograms(frames, MELS, generator),
            "frames": frames,
        }

    def units(self, batch: dict) -> int:
        return int(batch["frames"].sum())

    def padded_units(self, batch: dict) -> int:
        return batch["spectrogram"][:, 0].numel()

    def loss(self, module: nn.Module, batch: dict, state: None) -> tuple[Tensor, None]:
        inputs = ("text", "lengths", "durations", "pitch", "spectrogram")
        spectrogram, log_durations, pitch = module(*(batch[name] for name in inputs))
        letters = (batch["text"] != 0).float()
        frames = (batch["spectrogram"] != 0).float()
        wanted = (batch["durations"].float() + 1).log()
        loss = mean_square(spectrogram.float(), batch["spectrogram"], frames)
        loss = loss + SHARE * mean_square(log_durations, wanted, letters)
        return loss + SHARE * mean_square(pitch, batch["pitch"], letters), None

    def optimizer(self, module: nn.Module, config: FastPitchConfig) -> torch.optim.Optimizer:
        return Lamb(
            module.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=1e-6
        )

    def inference_inputs(
        self, config: FastPitchConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        lengths, _ = spoken_texts(batch_size, config.scale, generator)
        return texts(lengths, config.symbols, generator), lengths

    def inference(self, module: nn.Module, config: FastPitchConfig) -> Speaker:
        return Speaker(module)

    def dynamic_shapes(self, config: FastPitchConfig) -> tuple:
        batch = torch.export.Dim("batch")
        return {0: batch, 1: torch.export.Dim("letters", min=3)}, {0: batch}


def mean_square(guess: Tensor, wanted: Tensor, real: Tensor) -> Tensor:
    """The mean squared error over what is real."""
    return ((guess - wanted).square() * real).sum() / real.sum()
