"""Recognition of audio as it comes: chunk by chunk, with what the layers keep, as exactly as all at once.

A convolution of k frames keeps the last k - 1 inputs and answers as soon as it has all that an answer needs;
a sum waits for the slower of its sides. So every number is computed once and none is approximated. What these
networks pay is delay: their layers look ahead as far as back (Jasper 10x5 by 7.5 s of audio in all, QuartzNet
15x5 by 33 s), and the last letters come when the audio's end is known. Features are normalised by given
statistics, because an utterance's own are known only at its end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accelmark.networks.speech.acoustic import AcousticBlock, AcousticNetwork, Convolutions
from accelmark.networks.speech.features import RecognitionFeatures, emphasised, normalised


class FeatureStream:
    """Audio [rows, samples] in pieces to log-mel features [rows, mels, frames] in pieces."""

    def __init__(self, features: RecognitionFeatures) -> None:
        self.log_mel = features.log_mel
        self.waiting: Tensor | None = None
        self.last: Tensor | None = None
        self.samples = self.frames = 0

    def push(self, audio: Tensor, final: bool) -> Tensor:
        """The frames that are complete with this piece; `final` says that no other comes."""
        half, hop = self.log_mel.fft // 2, self.log_mel.hop
        piece = emphasised(audio, self.last)
        self.last = audio[:, -1:]
        self.samples += audio.shape[1]
        if self.waiting is None:
            if piece.shape[1] <= half:
                raise ValueError(f"the first piece of audio must have more than {half} samples")
            # Mirrored at the beginning, as without a stream.
            piece = F.pad(piece, (half, 0), mode="reflect")
            self.waiting = piece[:, :0]
        piece = torch.cat([self.waiting, piece], 1)
        if final:
            piece = F.pad(piece, (0, half), mode="reflect")
        whole = (piece.shape[1] - self.log_mel.fft) // hop + 1
        if final:
            whole = min(whole, -(-self.samples // hop) - self.frames)
        self.frames += whole
        self.waiting = piece[:, whole * hop :]
        if whole == 0:
            return piece.new_zeros(len(piece), len(self.log_mel.bands), 0)
        return self.log_mel.logarithm(
            self.log_mel.spectrum(piece[:, : (whole - 1) * hop + self.log_mel.fft], centred=False)
        )


class ConvolutionStream:
    """One convolution over pieces [rows, channels, frames] of its input."""

    def __init__(self, convolution: nn.Conv1d) -> None:
        self.convolution = convolution
        self.waiting: Tensor | None = None

    def push(self, x: Tensor, final: bool) -> Tensor:
        """The outputs that this piece completes."""
        layer = self.convolution
        (stride,), (dilation,), (padding,) = layer.stride, layer.dilation, layer.padding
        reach = dilation * (layer.kernel_size[0] - 1) + 1
        if self.waiting is None:
            self.waiting = x.new_zeros(*x.shape[:2], padding)
        x = torch.cat([self.waiting, F.pad(x, (0, padding if final else 0))], 2)
        count = max(0, (x.shape[2] - reach) // stride + 1)
        self.waiting = x[..., count * stride :]
        if count == 0:
            return x.new_zeros(x.shape[0], layer.out_channels, 0)
        piece = x[..., : (count - 1) * stride + reach]
        return F.conv1d(piece, layer.weight, layer.bias, stride, 0, dilation, layer.groups)


class ConvolutionsStream:
    """A layer's convolutions and its normalisation."""

    def __init__(self, layer: Convolutions) -> None:
        self.parts = [ConvolutionStream(part) for part in layer.parts]
        self.norm = layer.norm

    def push(self, x: Tensor, final: bool) -> Tensor:
        """The outputs that this piece completes."""
        for part in self.parts:
            x = part.push(x, final)
        return self.norm(x)


class BlockStream:
    """A block, whose sides wait for each other."""

    def __init__(self, block: AcousticBlock) -> None:
        self.layers = [ConvolutionsStream(layer) for layer in block.layers]
        self.sides = [ConvolutionsStream(side) for side in block.sides]
        self.waiting: list[Tensor] = []

    def push(self, inputs: list[Tensor], final: bool) -> Tensor:
        """The outputs that these pieces complete."""
        x = inputs[-1]
        for i, layer in enumerate(self.layers):
            x = layer.push(x if i == 0 else x.relu(), final)
        came = [x, *(side.push(piece, final) for side, piece in zip(self.sides, inputs, strict=False))]
        if self.waiting:
            came = [torch.cat(pair, 2) for pair in zip(self.waiting, came, strict=True)]
        ready = min(each.shape[2] for each in came)
        self.waiting = [each[..., ready:] for each in came]
        return torch.stack([each[..., :ready] for each in came]).sum(0).relu()


class RecogniserStream:
    """A trained network over pieces of audio of as many speakers as there are rows.

    `mean` and `deviation` of each feature, [rows or 1, mels, 1], are of audio alike.
    """

    def __init__(self, module: AcousticNetwork, mean: Tensor, deviation: Tensor) -> None:
        if module.training:
            raise ValueError("a stream needs a network in evaluation mode")
        self.module, self.mean, self.deviation = module, mean, deviation
        self.features = FeatureStream(module.features)
        self.blocks = [BlockStream(block) for block in module.blocks]
        self.letters = ConvolutionStream(module.letters)

    @torch.inference_mode()
    def push(self, audio: Tensor, final: bool = False) -> Tensor:
        """Log-probabilities of letters for the frames that are known now, [frames, rows, 29]."""
        x = normalised(self.features.push(audio, final), self.mean, self.deviation)
        before: list[Tensor] = []
        for stream in self.blocks:
            before = [*before, x] if stream.sides and self.module.dense else [x]
            x = stream.push(before, final)
            before = before if stream.sides else []
        return self.letters.push(x, final).permute(2, 0, 1).float().log_softmax(-1)


def look_ahead_s(module: AcousticNetwork) -> float:
    """Seconds of audio that a letter's answer needs behind it: the sum of what the layers look ahead."""
    hop_s = RecognitionFeatures.HOP / RecognitionFeatures.RATE
    seconds = module.features.log_mel.fft / 2 / RecognitionFeatures.RATE
    for block in module.blocks:
        for layer in block.layers:
            for part in layer.parts:
                seconds += part.padding[0] * hop_s
                hop_s *= part.stride[0]
    return seconds
