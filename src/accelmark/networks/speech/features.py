"""Log-mel spectrograms, the front end of every speech network, computed where the audio lies.

Two of them are published. Recognition (NVIDIA's Jasper and QuartzNet, MLPerf's RNN-T): 16 kHz, pre-emphasis
0.97, Hann windows of 20 ms every 10 ms, the power of 512 frequencies, Slaney's mel scale, the logarithm, and
each feature brought to mean 0 and deviation 1 over its utterance. Synthesis (Tacotron 2, WaveGlow,
FastPitch): 22.05 kHz, windows of 1024 samples every 256, the magnitude, 80 mel bands up to 8 kHz, the
logarithm of at least 1e-5. Both are librosa's spectrogram within a thousandth, which a test holds. The
recognisers' dither, noise of 1e-5 that is added to audio of exact zeros, is left out: synthetic audio has
none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchaudio.functional import melscale_fbanks

from accelmark.networks.autocast import single_precision


class LogMel(nn.Module):
    """Audio [rows, samples] to the logarithm of its mel spectrogram [rows, mels, frames].

    `power` is 1 for magnitudes and 2 for energies. There is a frame around each multiple of `hop`, with the
    audio mirrored at both ends.
    """

    window: Tensor
    bands: Tensor

    def __init__(
        self,
        rate: int,
        fft: int,
        window: int,
        hop: int,
        mels: int,
        highest_hz: float,
        power: int,
        floor: float,
        periodic: bool,
    ) -> None:
        super().__init__()
        self.fft, self.hop, self.power, self.floor = fft, hop, power, floor
        # Constants of the front end, no state of the network; they are the same wherever it is built.
        with torch.device("cpu"):
            hann = torch.hann_window(window, periodic=periodic)
            bands = melscale_fbanks(fft // 2 + 1, 0.0, highest_hz, mels, rate, "slaney", "slaney")
        like = torch.empty(0)
        self.register_buffer("window", hann.to(like.device), persistent=False)
        self.register_buffer("bands", bands.T.contiguous().to(like.device), persistent=False)

    def forward(self, audio: Tensor) -> Tensor:
        return self.logarithm(self.spectrum(audio))

    def spectrum(self, audio: Tensor, centred: bool = True) -> Tensor:
        """Magnitudes or energies, [rows, frequencies, frames]; without `centred` of whole windows only."""
        with single_precision(audio):
            complex_ = torch.stft(
                audio.float(),
                self.fft,
                self.hop,
                len(self.window),
                self.window,
                center=centred,
                pad_mode="reflect",
                return_complex=True,
            )
            energies = torch.view_as_real(complex_).square().sum(-1)
            return energies if self.power == 2 else energies.sqrt()

    def logarithm(self, spectrum: Tensor) -> Tensor:
        """The logarithm of the mel bands of a spectrum."""
        with single_precision(spectrum):
            return (self.bands @ spectrum).clamp(min=self.floor).log()


class RecognitionFeatures(nn.Module):
    """Audio [rows, samples] of 16 kHz and its lengths to normalised features [rows, mels, frames] and theirs.

    What lies behind an utterance's end is 0.
    """

    RATE = 16_000
    HOP = 160

    def __init__(self, mels: int) -> None:
        super().__init__()
        self.log_mel = LogMel(
            self.RATE, 512, 320, self.HOP, mels, self.RATE / 2, power=2, floor=1e-20, periodic=False
        )

    def forward(self, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        features = self.log_mel(emphasised(audio))
        frames = frame_counts(lengths)
        real = real_frames(features, frames)
        return normalised(features, *statistics(features, real, frames)) * real, frames


def emphasised(audio: Tensor, before: Tensor | None = None) -> Tensor:
    """Audio less 0.97 of the sample before each; `before`, [rows, 1], precedes the first."""
    if before is None:
        return torch.cat([audio[:, :1], audio[:, 1:] - 0.97 * audio[:, :-1]], 1)
    return audio - 0.97 * torch.cat([before, audio[:, :-1]], 1)


def frame_counts(samples: Tensor) -> Tensor:
    """Frames of utterances of so many samples: one for each hop, begun or whole."""
    return (samples + RecognitionFeatures.HOP - 1) // RecognitionFeatures.HOP


def real_frames(features: Tensor, frames: Tensor) -> Tensor:
    """1 where a frame belongs to its utterance and 0 behind it, [rows, 1, frames]."""
    place = torch.arange(features.shape[-1], device=features.device)
    return (place < frames[:, None]).to(features.dtype).unsqueeze(1)


def statistics(features: Tensor, real: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature over its utterance, [rows, mels, 1] each."""
    count = frames[:, None, None].to(features.dtype)
    mean = (features * real).sum(-1, keepdim=True) / count
    variance = ((features - mean).square() * real).sum(-1, keepdim=True) / (count - 1).clamp(min=1)
    return mean, variance.sqrt()


def normalised(features: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Features of mean 0 and deviation 1."""
    return (features - mean) / (deviation + 1e-5)


class SynthesisFeatures(LogMel):
    """Audio [rows, samples] of 22.05 kHz to mel spectrograms [rows, 80, frames], as a vocoder takes them."""

    RATE = 22_050
    HOP = 256
    MELS = 80

    def __init__(self) -> None:
        super().__init__(
            self.RATE, 1024, 1024, self.HOP, self.MELS, 8000.0, power=1, floor=1e-5, periodic=True
        )
