"""Speech synthesis on a clock that a fake device moves: the figures are known, the audio is real."""

from __future__ import annotations

import pytest
import torch

from accelmark.engines.pytorch import TorchDevice
from accelmark.errors import DivergedError, UnsupportedError
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.scenarios.synthesis import SynthesisStep, frames_of
from tests.fakes import FakeClock

HOP_S = 256 / 22050


class SlowDevice(TorchDevice):
    """Each chunk takes a quarter of a second."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("cpu")
        self.clock = clock

    def synchronize(self) -> None:
        self.clock.advance(0.25)


def step_of(name: str, clock: FakeClock, **changes: object) -> SynthesisStep:
    job = Job(
        network=name,
        scenario="speech-synthesis",
        parameters={"chunk_ms": 60},
        size="tiny",
        batch_size=2,
    )
    return SynthesisStep(registry.load(name), job.model_copy(update=changes), SlowDevice(clock), clock)


@pytest.mark.parametrize("name", ["tacotron2", "fastpitch"])
def test_audio_is_counted_in_seconds_of_every_row(name: str) -> None:
    clock = FakeClock()
    step = step_of(name, clock)
    for inputs, noise in list(step.texts):
        frames = noise.shape[2]
        before = clock.now
        units = step()
        chunks = -(-frames // 5)
        assert units == pytest.approx(2 * frames * HOP_S)
        assert step.audio is not None
        assert step.audio.shape == (2, frames * 256)
        assert len(inputs[0]) == 2
        spoken = step.spoken[-1]
        assert spoken.chunks == chunks
        assert clock.now - before == pytest.approx(0.25 * chunks) == pytest.approx(spoken.seconds)
        assert spoken.first_audio_s == pytest.approx(0.25)
        assert spoken.between_chunks_s == pytest.approx(0.25)
    step.check()


def test_silence_is_no_speech() -> None:
    step = step_of("fastpitch", FakeClock())
    step()
    for broken in (torch.zeros(2, 256), torch.full((2, 256), float("nan"))):
        step.audio = broken
        with pytest.raises(DivergedError, match="is no sound"):
            step.check()


def test_a_chunk_is_whole_frames() -> None:
    assert [frames_of(ms) for ms in (1, 100, 800, 3200)] == [1, 9, 69, 276]


def test_other_engines_do_not_speak() -> None:
    with pytest.raises(UnsupportedError, match="engine eager, not on compile"):
        step_of("fastpitch", FakeClock(), engine="compile")
