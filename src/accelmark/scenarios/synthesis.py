"""Speech synthesis: one text after the other through a network that makes spectrograms and WaveGlow.

Throughput counts seconds of audio for each second of computing, which is the real-time factor (RTFX on the
published page). A listener waits for the first chunk, and then for none if the gaps are shorter than chunks.
"""

from __future__ import annotations

import math

import torch

from accelmark.engines.pytorch import TorchDevice, autocast, set_precision
from accelmark.errors import DivergedError, UnsupportedError
from accelmark.job import Job, Settings
from accelmark.measure.clock import MONOTONIC, Clock
from accelmark.measure.loop import Group, measure
from accelmark.networks import registry
from accelmark.networks.base import Network
from accelmark.networks.speech.features import SynthesisFeatures
from accelmark.networks.speech.text_to_speech import Spoken, TextToSpeech
from accelmark.networks.speech.waveglow import GROUP, HOP
from accelmark.scenarios.outcome import OnWindow, Outcome
from accelmark.scenarios.watch import Watch

VOCODER = "waveglow"
#: Different texts that are spoken in turn, so that the lengths of LJSpeech are in the figure.
TEXTS = 4


def run(
    network: Network,
    job: Job,
    settings: Settings,
    device: TorchDevice,
    group: Group,
    on_window: OnWindow,
) -> Outcome:
    """Measure how fast texts become audio, and when it begins."""
    watch = Watch(device, group)
    step = SynthesisStep(network, job, device)

    def begin() -> None:
        step.spoken.clear()
        watch.start()

    with watch:
        measurement = measure(
            step,
            device,
            budget_s=settings.process_budget_s(),
            target=settings.target,
            window_s=settings.window_s,
            group=group,
            check=step.check,
            on_start=begin,
            on_window=on_window,
        )
        watch.stop()
    between = [spoken.between_chunks_s for spoken in step.spoken if spoken.between_chunks_s is not None]
    missing = {} if between else {"time_between_chunks_s": "every text was spoken in one chunk"}
    return watch.outcome(
        measurement,
        "s of audio/s",
        settings,
        parameters=step.parameters,
        time_to_first_audio_s=_mean([spoken.first_audio_s for spoken in step.spoken]),
        time_between_chunks_s=_mean(between) if between else None,
        not_measured=missing,
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


class SynthesisStep:
    """One batch of texts, spoken; its units are the seconds of audio."""

    def __init__(self, network: Network, job: Job, device: TorchDevice, clock: Clock = MONOTONIC) -> None:
        if job.engine not in (None, "eager"):
            raise UnsupportedError(f"speech synthesis runs on the engine eager, not on {job.engine}")
        self.device, self.clock = device, clock
        self.precision = job.precision or "fp32"
        set_precision(self.precision)
        torch.manual_seed(job.seed)
        place = device.torch_device
        config = network.configure(job.size)
        vocoder = registry.load(VOCODER)
        modules = network.build(config), vocoder.build(vocoder.sizes[job.size])
        self.parameters = sum(p.numel() for module in modules for p in module.parameters())
        self.voice = TextToSpeech(
            network.inference(modules[0], config).to(place),
            vocoder.inference(modules[1], vocoder.sizes[job.size]).to(place),
            frames_of(float(job.parameters["chunk_ms"])),
        )
        generator = torch.Generator().manual_seed(job.seed)
        self.rows = job.batch_size or 1
        self.texts = []
        for _ in range(TEXTS):
            inputs = network.inference_inputs(config, self.rows, generator)
            placed = [each.to(place) for each in inputs]
            with torch.inference_mode(), autocast(self.precision, place.type):
                frames = self.voice.speaker(*placed)[0].shape[2]
            noise = torch.randn(self.rows, GROUP, frames, HOP // GROUP, generator=generator).to(place)
            self.texts.append((placed, noise))
        self.steps = 0
        self.spoken: list[Spoken] = []
        self.audio: torch.Tensor | None = None

    def __call__(self) -> float:
        """Speak the next texts; seconds of audio, over all rows."""
        inputs, noise = self.texts[self.steps % TEXTS]
        self.steps += 1
        with autocast(self.precision, self.device.torch_device.type):
            self.audio, spoken = self.voice.speak(inputs, noise, self.clock, self.device.synchronize)
        self.spoken.append(spoken)
        return self.rows * spoken.audio_s

    def check(self) -> None:
        """Raise `DivergedError` unless the last audio is a sound."""
        if self.audio is not None and not (bool(self.audio.isfinite().all()) and float(self.audio.std()) > 0):
            raise DivergedError(f"the audio of text {self.steps} is no sound: silent, or not finite")


def frames_of(chunk_ms: float) -> int:
    """The frames of a chunk; at least one."""
    return max(1, round(chunk_ms / 1000 * SynthesisFeatures.RATE / HOP))
