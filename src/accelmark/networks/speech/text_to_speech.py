"""Text to speech by two networks: one makes the spectrogram of a text, WaveGlow the audio, in chunks.

The spectrogram is made whole, for both look at all of it before it is final. The vocoder then takes a few
frames at a time, with as many before and behind as it can see, so that the chunks are the audio that it would
make of the whole: what has been spoken is heard while the rest is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from accelmark.networks.speech.features import SynthesisFeatures
from accelmark.networks.speech.waveglow import GROUP, HOP, Vocoder, WaveGlow


def frames_in_sight(module: WaveGlow) -> int:
    """How many frames to each side of one a WaveGlow's samples can depend on."""
    # Each layer sees its dilation to each side, in groups of samples, one coupling after the other.
    groups = sum(layer.dilation[0] for coupling in module.couplings for layer in coupling.dilated)
    upsampling = module.upsample.kernel_size[0] // HOP
    return -(-groups * GROUP // HOP) + upsampling


@dataclass(frozen=True)
class Spoken:
    """How long one text took: seconds to the first chunk and in all, in chunks, and seconds of audio."""

    first_audio_s: float
    seconds: float
    audio_s: float
    chunks: int

    @property
    def between_chunks_s(self) -> float | None:
        """Seconds from one chunk to the next, in the mean; `None` if there was only one."""
        return (self.seconds - self.first_audio_s) / (self.chunks - 1) if self.chunks > 1 else None

    @property
    def real_time_factor(self) -> float:
        """Seconds of audio for each second of computing (RTFX on the published page)."""
        return self.audio_s / self.seconds


class TextToSpeech:
    """A network that makes spectrograms of text, and a vocoder, both in evaluation mode.

    `speaker` is the inference module of Tacotron 2 or FastPitch; `chunk` are the frames of a piece of audio.
    """

    def __init__(self, speaker: nn.Module, vocoder: Vocoder, chunk: int) -> None:
        if chunk < 1:
            raise ValueError(f"a chunk of {chunk} frames makes no audio")
        self.speaker, self.vocoder, self.chunk = speaker, vocoder, chunk
        self.sight = frames_in_sight(vocoder.module)

    @torch.inference_mode()
    def stream(self, inputs: Sequence[Any], noise: Tensor) -> Iterator[Tensor]:
        """The audio of texts in chunks, [rows, samples] each.

        `inputs` are the speaker's; `noise`, [rows, 8, frames or more, 32], the vocoder's.
        """
        spectrogram, _ = self.speaker(*inputs)
        frames = spectrogram.shape[2]
        for begin in range(0, frames, self.chunk):
            end = min(begin + self.chunk, frames)
            first, last = max(0, begin - self.sight), min(frames, end + self.sight)
            audio = self.vocoder(spectrogram[..., first:last], noise[:, :, first:last])
            yield audio[:, (begin - first) * HOP : (end - first) * HOP]

    def speak(
        self,
        inputs: Sequence[Any],
        noise: Tensor,
        clock: Callable[[], float],
        synchronize: Callable[[], None],
    ) -> tuple[Tensor, Spoken]:
        """The whole audio and how long it took; `synchronize` waits until the device has computed a chunk."""
        start, chunks, first = clock(), [], None
        for chunk in self.stream(inputs, noise):
            synchronize()
            first = clock() - start if first is None else first
            chunks.append(chunk)
        seconds = clock() - start
        audio = torch.cat(chunks, 1)
        audio_s = audio.shape[1] / SynthesisFeatures.RATE
        return audio, Spoken(first or seconds, seconds, audio_s, len(chunks))
