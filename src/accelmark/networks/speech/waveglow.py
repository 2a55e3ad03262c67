"""WaveGlow: A Flow-based Generative Network for Speech Synthesis (Prenger et al., 2019), on LJSpeech.

Twelve steps of flow over groups of 8 samples: an invertible product over the group, then half of it scaled
and shifted by what eight dilated convolutions make of the other half and of the mel spectrogram; every four
steps two samples leave (arXiv:1811.00002). Training makes noise of speech and is paid by likelihood;
synthesis runs it backwards. `full` is NVIDIA's PyTorch recipe as its training scripts run it, with 512
channels, Adam at 0.0001, 268,294,760 parameters; `256-channels` is the form that NVIDIA publishes trained,
87,879,272.

The mel spectrogram's parts in a step's eight layers are computed by one convolution, and the determinants of
equally large products together. A tenth of a second of speech, made and measured as the recipe does;
different: synthetic audio.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import remove_parametrizations

from accelmark.networks.autocast import single_precision
from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.speech.clips import LJSPEECH, draw, frames_to_speak, spectrograms, voices
from accelmark.networks.speech.features import SynthesisFeatures

#: Samples that pass the flow together; how many leave early, and after how many steps each time.
GROUP, EARLY, EVERY = 8, 2, 4

MELS = SynthesisFeatures.MELS
HOP = SynthesisFeatures.HOP


@dataclass(frozen=True, kw_only=True)
class WaveGlowConfig(Config):
    """`segment` are the samples of a training clip; `scale` shortens what is spoken."""

    channels: int
    flows: int = 12
    layers: int = 8
    segment: int = 8000
    learning_rate: float = 1e-4
    scale: float = 1.0


class Coupling(nn.Module):
    """Half a group [rows, half, groups] and the spectrogram's part to shifts and logarithms of scales."""

    def __init__(self, half: int, config: WaveGlowConfig) -> None:
        super().__init__()
        channels = config.channels
        self.start = weight_norm(nn.Conv1d(half, channels, 1))
        # The weights are normalised for each output channel, so that one convolution is as good as eight.
        self.condition = weight_norm(nn.Conv1d(MELS * GROUP, 2 * channels * config.layers, 1))
        self.dilated = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, 2 * channels, 3, dilation=2**i, padding=2**i))
            for i in range(config.layers)
        )
        last = config.layers - 1
        self.outputs = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels if i == last else 2 * channels, 1))
            for i in range(config.layers)
        )
        self.end = nn.Conv1d(channels, 2 * half, 1)
        # At first nothing is changed.
        nn.init.zeros_(self.end.weight)
        nn.init.zeros_(self.end.bias)

    def forward(self, x: Tensor, spectrogram: Tensor) -> tuple[Tensor, Tensor]:
        x = self.start(x)
        conditions = self.condition(spectrogram).chunk(len(self.dilated), 1)
        total: Tensor | None = None
        for dilated, output, condition in zip(self.dilated, self.outputs, conditions, strict=True):
            moved, gate = (dilated(x) + condition).chunk(2, 1)
            made = output(moved.tanh() * gate.sigmoid())
            skipped = made
            if output is not self.outputs[-1]:
                onward, skipped = made.chunk(2, 1)
                x = x + onward
            total = skipped if total is None else total + skipped
        shift, log_scale = self.end(total).chunk(2, 1)
        return shift, log_scale

    def fold(self) -> None:
        """Replace the normalised weights by what they come to."""
        for layer in (self.start, self.condition, *self.dilated, *self.outputs):
            remove_parametrizations(layer, "weight")


class WaveGlow(nn.Module):
    """Spectrograms [rows, 80, frames] and audio [rows, samples] to noise, and what likelihood adds to it.

    Noise is [rows, 8, groups]; the second value is the mean over samples of the logarithm of the volume's
    change.
    """

    def __init__(self, config: WaveGlowConfig) -> None:
        super().__init__()
        self.upsample = nn.ConvTranspose1d(MELS, MELS, 4 * HOP, stride=HOP)
        widths = [GROUP - EARLY * (i // EVERY) for i in range(config.flows)]
        self.mixes = nn.ParameterList(orthogonal(width) for width in widths)
        self.couplings = nn.ModuleList(Coupling(width // 2, config) for width in widths)

    def forward(self, spectrogram: Tensor, audio: Tensor) -> tuple[Tensor, Tensor]:
        conditions = self.condition(spectrogram, audio.shape[1])
        x = grouped(audio.unsqueeze(1))
        left, log_scales = [], []
        for i, (mix, coupling) in enumerate(zip(self.mixes, self.couplings, strict=True)):
            if i % EVERY == 0 and i > 0:
                left.append(x[:, :EARLY])
                x = x[:, EARLY:]
            x = mixed(mix, x)
            first, second = x.chunk(2, 1)
            shift, log_scale = coupling(first, conditions)
            x = torch.cat([first, second * log_scale.exp() + shift], 1)
            log_scales.append(log_scale.float().sum())
        noise = torch.cat([*left, x], 1)
        change = torch.stack(log_scales).sum() / noise.numel() + self.log_determinants() / GROUP
        return noise, change

    def condition(self, spectrogram: Tensor, samples: int) -> Tensor:
        """The spectrogram for each group of samples, [rows, 80 * 8, groups]."""
        return grouped(self.upsample(spectrogram)[..., :samples])

    def log_determinants(self) -> Tensor:
        """Of all products, summed."""
        with single_precision(self.mixes[0]):
            alike: dict[int, list[Tensor]] = {}
            for mix in self.mixes:
                alike.setdefault(len(mix), []).append(mix.float())
            return torch.cat([torch.linalg.slogdet(torch.stack(each))[1] for each in alike.values()]).sum()


def orthogonal(width: int) -> nn.Parameter:
    """A random rotation: an orthogonal matrix of determinant 1."""
    matrix, _ = torch.linalg.qr(torch.randn(width, width))
    matrix[:, 0] *= torch.linalg.slogdet(matrix)[0]
    return nn.Parameter(matrix)


def mixed(matrix: Tensor, x: Tensor) -> Tensor:
    """The product over the group, [rows, group, groups]."""
    return torch.conv1d(x, matrix.unsqueeze(-1))


def grouped(x: Tensor) -> Tensor:
    """[rows, channels, samples] to [rows, channels * 8, samples / 8]."""
    x = x.unflatten(2, (-1, GROUP))
    return x.transpose(2, 3).flatten(1, 2)


class Vocoder(nn.Module):
    """Spectrograms [rows, 80, frames] and noise [rows, 8, frames, 32] to audio [rows, 256 * frames].

    It has weights of its own, with their norms multiplied in and the products inverted.
    """

    def __init__(self, module: WaveGlow) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        for coupling in self.module.couplings:
            coupling.fold()
        with torch.no_grad():
            for mix in self.module.mixes:
                mix.copy_(torch.linalg.inv(mix.double()))
        self.eval()

    def forward(self, spectrogram: Tensor, noise: Tensor) -> Tensor:
        net = self.module
        conditions = net.condition(spectrogram, spectrogram.shape[-1] * HOP)
        width = len(net.mixes[-1])
        noise = noise.flatten(2)
        left, x = noise[:, : GROUP - width], noise[:, GROUP - width :]
        for i in reversed(range(len(net.mixes))):
            first, second = x.chunk(2, 1)
            shift, log_scale = net.couplings[i](first, conditions)
            x = mixed(net.mixes[i], torch.cat([first, (second - shift) * (-log_scale).exp()], 1))
            if i % EVERY == 0 and i > 0:
                x = torch.cat([left[:, -EARLY:], x], 1)
                left = left[:, :-EARLY]
        return x.transpose(1, 2).flatten(1)


@register
class WaveGlowNetwork(Network):
    """NVIDIA's recipe on LJSpeech."""

    name = "waveglow"
    title = "WaveGlow"
    domain = "speech"
    task = "audio from spectrograms"
    unit = "samples"
    inference_unit = "clips"
    dataset = "LJSpeech 1.1"
    quality = QualityTarget("training loss", -5.85)
    paper = "https://arxiv.org/abs/1811.00002"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/SpeechSynthesis/Tacotron2"
    sizes = {
        "full": WaveGlowConfig(batch_size=10, channels=512),
        "tiny": WaveGlowConfig(
            batch_size=2, channels=8, flows=5, layers=3, segment=2048, learning_rate=5e-3, scale=0.03
        ),
        "256-channels": WaveGlowConfig(batch_size=10, channels=256),
    }

    def build(self, config: WaveGlowConfig) -> WaveGlow:
        return WaveGlow(config)

    def batch(
        self, config: WaveGlowConfig, batch_size: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        samples = torch.full((batch_size,), config.segment)
        audio = voices(samples, SynthesisFeatures.RATE, generator)
        return SynthesisFeatures()(audio), audio

    def units(self, batch: tuple[Tensor, ...]) -> int:
        return batch[1].numel()

    def loss(self, module: nn.Module, batch: tuple[Tensor, ...], state: None) -> tuple[Tensor, None]:
        noise, change = module(*batch)
        # The negative logarithm of the likelihood of a normal distribution, without its constant, a sample.
        return noise.float().square().mean() / 2 - change, None

    def optimizer(self, module: nn.Module, config: WaveGlowConfig) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, fused=True)

    def inference_inputs(
        self, config: WaveGlowConfig, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        characters = draw(LJSPEECH, batch_size, generator) * config.scale
        frames = frames_to_speak(characters.round().long().clamp(min=2))
        noise = torch.randn(batch_size, GROUP, int(frames.max()), HOP // GROUP, generator=generator)
        return spectrograms(frames, MELS, generator), noise

    def inference(self, module: nn.Module, config: WaveGlowConfig) -> Vocoder:
        return Vocoder(module)

    def dynamic_shapes(self, config: WaveGlowConfig) -> tuple:
        either = {0: torch.export.Dim("batch"), 2: torch.export.Dim("frames", min=4)}
        return either, either
