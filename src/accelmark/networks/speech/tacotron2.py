"""Tacotron 2: Natural TTS Synthesis by Conditioning WaveNet on Mel Spectrograms (Shen et al., 2018).

Three convolutions and a two-way LSTM of 512 read the text; for each frame of the spectrogram an LSTM of 1024
looks for its place in the text by what it has already read (location-sensitive attention), another of 1024
gives the frame and whether it is the last; five convolutions improve all frames together (arXiv:1712.05884).
NVIDIA's PyTorch configuration: 148 symbols, 80 mel bands, one frame a step, Adam at 0.001 with weight decay
1e-6, gradients clipped to 1, the sum of three mean squared or cross-entropy errors over all frames with their
padding. 28,193,153 parameters; NVIDIA publishes 28.2 million.

What does not depend on the frame before is computed for all frames at once: the dropout layers' input before
the loop (in the recipe, too), frames and stop tokens after it; the location's convolution and product are one
convolution. Different: a constant learning rate, and synthetic texts and spectrograms of LJSpeech's lengths.

Inference draws the dropout before the LSTM, which is never off, from a noise that comes with the inputs. An
untrained network knows no end, so speech is made as long as a reader would need for the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.base import Config, Network, QualityTarget
from accelmark.networks.lstm import LSTM, turned
from accelmark.networks.registry import register
from accelmark.networks.speech.clips import frames_to_speak, spectrograms, spoken_texts, texts

MELS = 80
DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True)
class Tacotron2Config(Config):
    """`scale` shortens the texts."""

    width: int
    lstm_width: int
    attention_width: int
    before_width: int
    after_width: int
    learning_rate: float = 1e-3
    symbols: int = 148
    location_filters: int = 32
    location_kernel: int = 31
    scale: float = 1.0


def layers(widths: Sequence[int], activations: Sequence[str]) -> nn.ModuleList:
    """Convolutions of 5 places, each with batch normalisation, from width to width."""
    made = nn.ModuleList()
    for inputs, outputs, activation in zip(widths, widths[1:], activations, strict=False):
        convolution = nn.Conv1d(inputs, outputs, 5, padding=2)
        nn.init.xavier_uniform_(convolution.weight, nn.init.calculate_gain(activation))
        norm = nn.BatchNorm1d(outputs)
        nn.init.uniform_(norm.weight)
        made.append(nn.Sequential(convolution, norm))
    return made


def linear(inputs: int, outputs: int, activation: str = "linear", bias: bool = False) -> nn.Linear:
    """A product whose weights begin as wide as what follows it asks for."""
    made = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(made.weight, nn.init.calculate_gain(activation))
    return made


class Reader(nn.Module):
    """Symbols [rows, letters] and their lengths to what the decoder attends to, [rows, letters, width]."""

    def __init__(self, config: Tacotron2Config) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.symbols, config.width)
        bound = (6 / (config.symbols + config.width)) ** 0.5
        nn.init.uniform_(self.embedding.weight, -bound, bound)
        self.convolutions = layers([config.width] * 4, ["relu"] * 3)
        self.forwards = LSTM(config.width, config.width // 2)
        self.backwards = LSTM(config.width, config.width // 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        x = self.embedding(text).transpose(1, 2)
        for convolution in self.convolutions:
            x = self.drop(convolution(x).relu())
        x = x.transpose(1, 2)
        return torch.cat([self.forwards(x), turned(self.backwards(turned(x, lengths)), lengths)], -1)


class Decoder(nn.Module):
    """What the reader found and the frames so far to the next ones."""

    def __init__(self, config: Tacotron2Config) -> None:
        super().__init__()
        width, lstm_width, attention_width = config.width, config.lstm_width, config.attention_width
        self.before = nn.ModuleList(
            [linear(MELS, config.before_width), linear(config.before_width, config.before_width)]
        )
        self.first = nn.LSTMCell(config.before_width + width, lstm_width)
        self.second = nn.LSTMCell(lstm_width + width, lstm_width)
        self.query = linear(lstm_width, attention_width, "tanh")
        self.keys = linear(width, attention_width, "tanh")
        self.energy = linear(attention_width, 1)
        kernel = config.location_kernel
        self.location = nn.Conv1d(2, config.location_filters, kernel, padding=kernel // 2, bias=False)
        nn.init.xavier_uniform_(self.location.weight)
        self.location_keys = linear(config.location_filters, attention_width, "tanh")
        self.frame = linear(lstm_width + width, MELS, bias=True)
        self.stop = linear(lstm_width + width, 1, "sigmoid", bias=True)
        self.drop = nn.Dropout(DROPOUT)
        self.drop_before = nn.Dropout(0.5)

    def prepare(self, frames: Tensor, noise: Tensor | None = None) -> Tensor:
        """Frames [..., 80] as the first LSTM takes them, with half of everything dropped.

        That stays on when the network speaks: by `noise` [..., 2, before width] from 0 to 1, where it is
        below 0.5.
        """
        for i, layer in enumerate(self.before):
            frames = layer(frames).relu()
            if noise is None:
                frames = self.drop_before(frames)
            else:
                frames = frames * (noise[..., i, :] >= 0.5).to(frames.dtype) * 2
        return frames

    def location_weight(self) -> Tensor:
        """The location's convolution and the product after it as one convolution."""
        weight = self.location_keys.weight @ self.location.weight.flatten(1)
        return weight.unflatten(1, self.location.weight.shape[1:])

    def start(self, memory: Tensor) -> tuple[Tensor, ...]:
        """States and cells of both LSTMs, what was found, and where attention was and has been: zeros."""
        rows, letters, width = memory.shape
        lstms = memory.new_zeros(4, rows, self.first.hidden_size).unbind()
        return *lstms, memory.new_zeros(rows, width), *memory.new_zeros(2, rows, letters).unbind()

    def step(
        self,
        prepared: Tensor,
        state: tuple[Tensor, ...],
        memory: Tensor,
        keys: Tensor,
        real: Tensor,
        location_weight: Tensor,
    ) -> tuple[Tensor, ...]:
        """The state after one frame: [rows, ...] each, in the order of `start`."""
        hidden, cell, upper, upper_cell, found, attended, ever = state
        hidden, cell = self.first(torch.cat([prepared, found], -1), (hidden, cell))
        hidden = self.drop(hidden)
        places = torch.stack([attended, ever], 1)
        located = F.conv1d(places, location_weight, padding=location_weight.shape[-1] // 2)
        energies = self.energy((self.query(hidden).unsqueeze(1) + located.transpose(1, 2) + keys).tanh())
        attended = energies.squeeze(-1).float().masked_fill(~real, -65504.0).softmax(-1).to(memory.dtype)
        found = torch.bmm(attended.unsqueeze(1), memory).squeeze(1)
        upper, upper_cell = self.second(torch.cat([hidden, found], -1), (upper, upper_cell))
        return hidden, cell, self.drop(upper), upper_cell, found, attended, ever + attended

    def forward(self, memory: Tensor, real: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [rows, frames, 80] and stop tokens [rows, frames], each from the real frame before."""
        prepared = self.prepare(F.pad(frames[:, :-1], (0, 0, 1, 0))).unbind(1)
        state, outputs = self.start(memory), []
        keys, location_weight = self.keys(memory), self.location_weight()
        for each in prepared:
            state = self.step(each, state, memory, keys, real, location_weight)
            outputs.append(torch.cat([state[2], state[4]], -1))
        x = torch.stack(outputs, 1)
        return self.frame(x), self.stop(x).squeeze(-1)


class Tacotron2(nn.Module):
    """Texts, their lengths and the real frames [rows, 80, frames] to frames, improved frames, stop tokens."""

    def __init__(self, config: Tacotron2Config) -> None:
        super().__init__()
        self.reader = Reader(config)
        self.decoder = Decoder(config)
        widths = [MELS, *[config.after_width] * 4, MELS]
        self.after = layers(widths, ["tanh"] * 4 + ["linear"])
        self.drop = nn.Dropout(0.5)

    def forward(self, text: Tensor, lengths: Tensor, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        memory, real = self.read(text, lengths)
        rough, stops = self.decoder(memory, real, frames.transpose(1, 2))
        rough = rough.transpose(1, 2)
        return rough, rough + self.improvement(rough), stops

    def read(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What to attend to, and which letters are real."""
        real = torch.arange(text.shape[1], device=text.device) < lengths[:, None]
        return self.reader(text, lengths), real

    def improvement(self, x: Tensor) -> Tensor:
        """What is added to frames [rows, 80, frames] when all are known."""
        for i, layer in enumerate(self.after):
            x = layer(x)
            x = self.drop(x.tanh() if i < len(self.after) - 1 else x)
        return x


class Speaker(nn.Module):
    """Texts [rows, letters], their lengths and noise to spectrograms [rows, 80, frames] and their lengths.

    Noise is [rows, frames, 2, before width], from 0 to 1.
    """

    def __init__(self, module: Tacotron2) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, text: Tensor, lengths: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        decoder = self.module.decoder
        memory, real = self.module.read(text, lengths)
        keys, location_weight = decoder.keys(memory), decoder.location_weight()
        wanted = frames_to_speak(lengths)
        most, rows = noise.shape[1], noise.shape[0]
        places = torch.arange(most, device=text.device)

        def going(at: Tensor, spoken: Tensor, frame: Tensor, *state: Tensor) -> Tensor:
            return (at < wanted).any() & (at < places.shape[0])

        def advance(at: Tensor, spoken: Tensor, frame: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
            here = noise.index_select(1, at.unsqueeze(0)).squeeze(1)
            state = decoder.step(decoder.prepare(frame, here), state, memory, keys, real, location_weight)
            frame = decoder.frame(torch.cat([state[2], state[4]], -1))
            spoken = torch.where((places == at)[:, None], frame.unsqueeze(1), spoken)
            return at + 1, spoken, frame, *state

        at = torch.zeros((), dtype=torch.long, device=text.device)
        carried = (at, memory.new_zeros(rows, most, MELS), memory.new_zeros(rows, MELS))
        carried = (*carried, *(each.clone() for each in decoder.start(memory)))
        if torch.compiler.is_exporting():
            carried = torch.while_loop(going, advance, carried)
        else:
            while going(*carried):
                carried = advance(*carried)
        rough = carried[1].transpose(1, 2)
        return rough + self.module.improvement(rough), wanted.clamp(max=most)


@register
class Tacotron2Network(Network):
    """NVIDIA's recipe on LJSpeech."""

    name = "tacotron2"
    title = "Tacotron 2"
    domain = "speech"
    task = "spectrograms from text"
    unit = "mel frames"
    inference_unit = "texts"
    dataset = "LJSpeech 1.1"
    quality = QualityTarget("training loss", 0.57)
    paper = "https://arxiv.org/abs/1712.05884"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/SpeechSynthesis/Tacotron2"
    scenarios = ("training", "inference", "speech-synthesis")
    clip_gradient_norm = 1.0
    sizes = {
        "full": Tacotron2Config(
            batch_size=104,
            width=512,
            lstm_width=1024,
            attention_width=128,
            before_width=256,
            after_width=512,
        ),
        "tiny": Tacotron2Config(
            batch_size=4,
            width=32,
            lstm_width=48,
            attention_width=16,
            before_width=16,
            after_width=32,
            learning_rate=1e-2,
            scale=0.06,
        ),
    }

    def build(self, config: Tacotron2Config) -> Tacotron2:
        return Tacotron2(config)

    def batch(self, config: Tacotron2Config, batch_size: int, generator: torch.Generator) -> dict:
        lengths, frames = spoken_texts(batch_size, config.scale, generator)
        last = torch.arange(int(frames.max())) >= frames[:, None] - 1
        return {
            "text": texts(lengths, config.symbols, generator),
            "lengths": lengths,
            "spectrogram": spectrograms(frames, MELS, generator),
            # On from the last frame, also over the padding.
            "stops": last.float(),
            "frames": frames,
        }

    def units(self, batch: dict) -> int:
        return int(batch["frames"].sum())

    def padded_units(self, batch: dict) -> int:
        return batch["stops"].numel()

    def steps(self, batch: dict) -> int:
        return batch["stops"].shape[1]

    def first_steps(self, batch: dict, steps: int) -> dict:
        return batch | {"spectrogram": batch["spectrogram"][..., :steps], "stops": batch["stops"][:, :steps]}

    def loss(self, module: nn.Module, batch: dict, state: None) -> tuple[Tensor, None]:
        real = batch["spectrogram"]
        rough, improved, stops = module(batch["text"], batch["lengths"], real)
        frames = F.mse_loss(rough.float(), real) + F.mse_loss(improved.float(), real)
        return frames + F.binary_cross_entropy_with_logits(stops.float(), batch["stops"]), None

    def optimizer(self, module: nn.Module, config: Tacotron2Config) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), lr=config.learning_rate, weight_decay=1e-6, fused=True)

    def inference_inputs(
        self, config: Tacotron2Config, batch_size: int, generator: torch.Generator
    ) -> Sequence[Tensor]:
        lengths, _ = spoken_texts(batch_size, config.scale, generator)
        noise = torch.rand(
            batch_size, int(frames_to_speak(lengths).max()), 2, config.before_width, generator=generator
        )
        return texts(lengths, config.symbols, generator), lengths, noise

    def inference(self, module: nn.Module, config: Tacotron2Config) -> Speaker:
        return Speaker(module)

    def dynamic_shapes(self, config: Tacotron2Config) -> tuple:
        # An LSTM exports as one step after another, so texts keep their length.
        batch = torch.export.Dim("batch")
        return {0: batch}, {0: batch}, {0: batch, 1: torch.export.Dim("frames")}
