"""Clips and utterances as long as those of LJSpeech and LibriSpeech, and audio to fill them.

LJSpeech 1.1: 13,100 clips, 1.1 to 10.1 s, 6.57 in the mean; the numbers of characters are the quantiles of
its transcripts (mean 99.9), so 66 ms or 5.66 frames of 256 samples a character; that clips differ by 10 % in
it is an assumption. LibriSpeech (Panayotov et al., 2015): 281,241 utterances of training, 961 h, so 12.3 s in
the mean, at 14.5 characters a second with a deviation of 2.8 (counted on dev-clean). The corpus was cut at
silences to at most 16 s or so, and most of it is near that; the quantiles here have this form and the
published mean, but are not counted. Those of dev-clean are, over its 2,703 utterances.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

Count = TypeVar("Count", int, Tensor)

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)

#: Characters of LJSpeech's transcripts.
LJSPEECH = (12, 24, 41, 52, 69, 81, 92, 102, 112, 121, 131, 142, 151, 165, 187)
FRAMES_PER_CHARACTER, FRAMES_SPREAD = 5.66, 0.1
#: Of 256 samples at 22.05 kHz, in the longest clip.
LONGEST_FRAMES = 870

#: Seconds of LibriSpeech's utterances: for training those of at most 16.7, and of dev-clean.
LIBRISPEECH = (1.3, 2.2, 3.6, 5.4, 9.8, 12.0, 13.0, 13.7, 14.3, 14.8, 15.2, 15.7, 16.0, 16.4, 16.7)
DEV_CLEAN = (1.45, 1.94, 2.37, 2.73, 3.35, 4.17, 4.9, 5.92, 7.06, 8.44, 10.16, 13.3, 16.4, 23.5, 32.65)
CHARACTERS_PER_SECOND, CHARACTERS_SPREAD = 14.5, 2.8


def draw(quantiles: tuple[float, ...], count: int, generator: torch.Generator) -> Tensor:
    """`count` values, one from each of as many equal parts of a distribution, in random order.

    A few batches stand for a whole corpus: with independent draws a small one would be long or short by
    chance.
    """
    places = (torch.arange(count) + torch.rand(count, generator=generator, dtype=torch.float64)) / count
    places = places[torch.randperm(count, generator=generator)]
    shares = torch.tensor(SHARES, dtype=torch.float64)
    values = torch.tensor(quantiles, dtype=torch.float64)
    above = torch.searchsorted(shares, places, right=True).clamp(1, len(SHARES) - 1)
    within = (places - shares[above - 1]) / (shares[above] - shares[above - 1])
    return values[above - 1] + within * (values[above] - values[above - 1])


def spoken_texts(count: int, scale: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Characters and frames of `count` of LJSpeech's clips, times `scale`; the longest text is first."""
    characters = draw(LJSPEECH, count, generator) * scale
    spread = 1 + FRAMES_SPREAD * torch.randn(count, generator=generator, dtype=torch.float64)
    frames = (characters * FRAMES_PER_CHARACTER * spread.clamp(0.7, 1.3)).clamp(max=LONGEST_FRAMES * scale)
    order = characters.argsort(descending=True)
    return characters[order].round().long().clamp(min=2), frames[order].round().long().clamp(min=8)


def frames_to_speak(characters: Count) -> Count:
    """Frames of 256 samples that a reader needs for so many characters."""
    return (characters * round(100 * FRAMES_PER_CHARACTER) + 99) // 100


def utterances(
    quantiles: tuple[float, ...], count: int, scale: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Samples at 16 kHz and characters of `count` utterances, times `scale`."""
    seconds = draw(quantiles, count, generator) * scale
    rates = CHARACTERS_PER_SECOND + CHARACTERS_SPREAD * torch.randn(
        count, generator=generator, dtype=torch.float64
    )
    # Slower than 22 characters a second: 44 frames of 20 ms, with room for the blanks between letters.
    characters = (seconds * rates.clamp(6, 22)).round().long().clamp(min=1)
    # An odd number of samples is no whole number of hops, of which a spectrogram has one frame more.
    return (seconds * 8_000).long() * 2 + 1, characters


def voices(lengths: Tensor, rate: int, generator: torch.Generator) -> Tensor:
    """Audio [rows, longest]: a hum of 100 to 250 Hz, overtones and noise, in syllables; 0 behind the end."""
    rows, longest = len(lengths), int(lengths.max())
    time = torch.arange(longest) / rate
    pitch = 100 + 150 * torch.rand(rows, 1, generator=generator)
    phase = 2 * torch.pi * pitch * time
    hum = phase.sin() + 0.5 * (2 * phase).sin() + 0.25 * (5 * phase).sin()
    syllables = (2 * torch.pi * 4 * time + 6 * torch.rand(rows, 1, generator=generator)).sin().square()
    audio = 0.15 * hum * syllables + 0.02 * torch.randn(rows, longest, generator=generator)
    return torch.where(torch.arange(longest) < lengths[:, None], audio, 0.0)


def spectrograms(frames: Tensor, bands: int, generator: torch.Generator) -> Tensor:
    """Mel spectrograms [rows, bands, longest] that move as speech does, from -11.5 to 2; 0 behind."""
    rows, longest = len(frames), int(frames.max())
    coarse = torch.randn(rows, 1, bands // 8, -(-longest // 8) + 1, generator=generator)
    moving = F.interpolate(coarse, size=(bands, longest), mode="bilinear")[:, 0]
    falling = torch.linspace(-3, -7, bands)[:, None]
    mel = falling + 1.5 * moving + 0.5 * torch.randn(rows, bands, longest, generator=generator)
    real = (torch.arange(longest) < frames[:, None]).unsqueeze(1)
    return torch.where(real, mel.clamp(-11.5, 2.0), 0.0)


def texts(lengths: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
    """Random symbols [rows, longest] from 1, with 0 behind a text's end."""
    longest = int(lengths.max())
    letters = torch.randint(1, symbols, (len(lengths), longest), generator=generator)
    return torch.where(torch.arange(longest) < lengths[:, None], letters, 0)
