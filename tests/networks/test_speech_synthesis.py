"""Tacotron 2, FastPitch and WaveGlow: what only networks that speak can get wrong."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from accelmark.networks.speech import clips, text_to_speech, waveglow

from .sweep import NETWORKS, generator, tiny, without_chance

TACOTRON, FASTPITCH, WAVEGLOW = (NETWORKS[name] for name in ("tacotron2", "fastpitch", "waveglow"))


# Tacotron 2


def test_the_reader_runs_both_ways_within_each_text():
    config, module = tiny(TACOTRON)
    reader = module.eval().reader
    lengths = torch.tensor([9, 6, 4])
    text = clips.texts(lengths, config.symbols, generator())
    both = nn.LSTM(config.width, config.width // 2, batch_first=True, bidirectional=True)
    weights = dict(reader.forwards.named_parameters())
    weights |= {f"{name}_reverse": p for name, p in reader.backwards.named_parameters()}
    both.load_state_dict(weights)
    with torch.no_grad():
        x = reader.embedding(text).transpose(1, 2)
        for convolution in reader.convolutions:
            x = convolution(x).relu()
        packed, _ = both(pack_padded_sequence(x.transpose(1, 2), lengths, batch_first=True))
        expected, _ = pad_packed_sequence(packed, batch_first=True)
        real = (torch.arange(9) < lengths[:, None]).unsqueeze(2)
        torch.testing.assert_close(reader(text, lengths) * real, expected * real, rtol=1e-5, atol=1e-6)


def test_attention_looks_at_where_it_was_by_convolution_and_product():
    config, module = tiny(TACOTRON)
    decoder = module.eval().decoder
    memory, places = torch.randn(2, 7, config.width), torch.rand(2, 2, 7)
    real = torch.arange(7) < torch.tensor([[7], [5]])
    state = [torch.randn_like(each) for each in decoder.start(memory)]
    state[5:] = places.unbind(1)
    prepared = torch.randn(2, config.before_width)
    with torch.no_grad():
        ours = decoder.step(
            prepared, tuple(state), memory, decoder.keys(memory), real, decoder.location_weight()
        )
        hidden, cell = decoder.first(torch.cat([prepared, state[4]], 1), (state[0], state[1]))
        located = decoder.location_keys(decoder.location(places).transpose(1, 2))
        query = decoder.query(hidden).unsqueeze(1)
        energies = decoder.energy(torch.tanh(query + located + decoder.keys(memory))).squeeze(2)
        attended = energies.masked_fill(~real, -math.inf).softmax(1)
        found = (attended.unsqueeze(2) * memory).sum(1)
        upper, _ = decoder.second(torch.cat([hidden, found], 1), (state[2], state[3]))
    for mine, other in zip((ours[0], ours[1], ours[2], ours[4]), (hidden, cell, upper, found), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours[5], attended, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours[6], places[:, 1] + attended, rtol=1e-5, atol=1e-6)
    assert (ours[5][1, 5:] == 0).all()


def test_it_speaks_as_it_is_trained_when_each_frame_is_its_own():
    """What is spoken, given as the real frames, comes out again: the loop and the training agree."""
    config, module = tiny(TACOTRON)
    speaker = TACOTRON.inference(module, config)
    lengths = torch.tensor([3, 2])
    text = clips.texts(lengths, config.symbols, generator())
    noise = torch.rand(2, clips.frames_to_speak(3), 2, config.before_width, generator=generator())
    decoder = module.decoder
    # Without chance on either side.
    decoder.prepare = lambda frames, noise=None: type(decoder).prepare(decoder, frames)
    with torch.no_grad():
        spoken, wanted = speaker(text, lengths, noise)
        memory, real = module.read(text, lengths)
        rough, _ = decoder(memory, real, torch.zeros(2, spoken.shape[2], 80))
        for _ in range(spoken.shape[2]):
            rough, _ = decoder(memory, real, rough)
        again = rough.transpose(1, 2)
        again = again + module.improvement(again)
    assert wanted.tolist() == clips.frames_to_speak(lengths).tolist()
    torch.testing.assert_close(spoken, again, rtol=1e-4, atol=1e-4)


def test_half_of_what_comes_before_the_lstm_is_dropped_also_when_it_speaks():
    config, module = tiny(TACOTRON)
    decoder = module.eval().decoder
    frames, noise = torch.randn(50, 80), torch.rand(50, 2, config.before_width, generator=generator())
    once = decoder.prepare(frames, noise)
    assert (once[noise[:, 1] < 0.5] == 0).all()
    by_hand = torch.relu(decoder.before[0](frames)) * (noise[:, 0] >= 0.5) * 2
    by_hand = torch.relu(decoder.before[1](by_hand)) * (noise[:, 1] >= 0.5) * 2
    torch.testing.assert_close(once, by_hand)


def test_the_loss_of_silence_that_stops_at_once_is_known():
    class Silent(nn.Module):
        def forward(self, text, lengths, frames):
            return (
                torch.zeros_like(frames),
                torch.ones_like(frames),
                torch.zeros(frames.shape[0], frames.shape[2]),
            )

    batch = TACOTRON.batch(TACOTRON.sizes["tiny"], 3, generator())
    loss, _ = TACOTRON.loss(Silent(), batch, None)
    real = batch["spectrogram"].double()
    expected = real.square().mean() + (1 - real).square().mean() + math.log(2)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    # A clip stops at its last frame and stays so.
    assert batch["stops"].sum(1).tolist() == (batch["stops"].shape[1] - batch["frames"] + 1).tolist()


# FastPitch


def test_each_letter_lasts_as_long_as_it_is_told():
    config, module = tiny(FASTPITCH)
    module.eval()
    x = torch.randn(2, 4, config.width)
    durations = torch.tensor([[2, 0, 3, 1], [1, 1, 1, 0]])
    seen = []
    module.frames.forward = lambda repeated, real: seen.append((repeated, real)) or repeated
    module.speak(x, durations.cumsum(1), 7)
    ((repeated, real),) = seen
    for row in range(2):
        expected = x[row].repeat_interleave(durations[row], 0)
        torch.testing.assert_close(repeated[row, : len(expected)], expected)
        assert (repeated[row, len(expected) :] == 0).all()
    assert real.sum(1).tolist() == [6, 3]


def test_a_text_is_spoken_the_same_in_shorter_company():
    config, module = tiny(FASTPITCH)
    speaker = FASTPITCH.inference(module, config)
    lengths = torch.tensor([12, 7])
    text = clips.texts(lengths, config.symbols, generator())
    with torch.no_grad():
        together, frames = speaker(text, lengths)
        alone, _ = speaker(text[:1], lengths[:1])
    assert frames.tolist() == [68, 40]
    assert together.shape == (2, 80, 68)
    torch.testing.assert_close(together[0], alone[0], rtol=1e-4, atol=1e-4)


def test_durations_of_a_batch_add_up_to_its_frames():
    batch = FASTPITCH.batch(FASTPITCH.sizes["full"], 16, generator())
    assert batch["durations"].sum(1).tolist() == batch["frames"].tolist()
    assert (batch["durations"] >= 0).all()
    assert batch["durations"].double().sum() / batch["lengths"].sum() == pytest.approx(5.66, rel=0.05)


def test_losses_are_means_over_what_is_real():
    class Fixed(nn.Module):
        def forward(self, text, lengths, durations, pitch, spectrogram):
            return torch.zeros_like(spectrogram), torch.zeros_like(pitch), torch.zeros_like(pitch)

    batch = FASTPITCH.batch(FASTPITCH.sizes["tiny"], 3, generator())
    loss, _ = FASTPITCH.loss(Fixed(), batch, None)
    expected = (
        torch.cat([batch["spectrogram"][i, :, : batch["frames"][i]].flatten() for i in range(3)])
        .square()
        .mean()
    )
    for name, weigh in (("durations", lambda x: (x.double() + 1).log()), ("pitch", torch.Tensor.double)):
        values = torch.cat([batch[name][i, : batch["lengths"][i]] for i in range(3)])
        expected = expected + 0.1 * weigh(values).square().mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


# WaveGlow


def trained():
    """A tiny WaveGlow that changes what passes through it."""
    config, module = tiny(WAVEGLOW)
    with torch.no_grad():
        for coupling in module.couplings:
            coupling.end.weight.normal_(0, 0.3)
            coupling.end.bias.normal_(0, 0.1)
        for mix in module.mixes:
            mix.add_(0.2 * torch.randn_like(mix))
    return config, module.double()


def test_synthesis_gives_back_the_audio_whose_noise_it_is_given():
    config, module = trained()
    spectrogram, audio = (each.double() for each in WAVEGLOW.batch(config, 2, generator()))
    spectrogram = spectrogram[..., : config.segment // 256]
    with torch.no_grad():
        noise, _ = module(spectrogram, audio)
        assert not torch.allclose(noise.flatten(), waveglow.grouped(audio.unsqueeze(1)).flatten(), atol=0.1)
        vocoder = WAVEGLOW.inference(module, config)
        again = vocoder(spectrogram, noise.unflatten(2, (-1, 32)))
    torch.testing.assert_close(again, audio, rtol=1e-6, atol=1e-6)


def test_the_likelihood_counts_how_volumes_change():
    """Against the determinant of all derivatives of noise by audio."""
    _, module = trained()
    spectrogram, audio = torch.randn(1, 80, 1).double(), 0.1 * torch.randn(1, 256).double()
    module.requires_grad_(False)
    # 16 samples are two groups, in whose noise all of the flow's steps take part.
    conditions = module.condition(spectrogram, 16)
    module.condition = lambda spectrogram, samples: conditions
    audio = audio[:, :16]
    derivatives = torch.autograd.functional.jacobian(lambda x: module(spectrogram, x)[0].flatten(), audio)
    _, expected = torch.linalg.slogdet(derivatives.view(16, 16))
    _, change = module(spectrogram, audio)
    assert change.item() == pytest.approx(expected.item() / 16, rel=1e-6)


def test_the_loss_is_the_normal_distribution_s():
    class Fixed(nn.Module):
        def forward(self, spectrogram, audio):
            return torch.full((2, 8, 256), 3.0), torch.tensor(0.25)

    loss, _ = WAVEGLOW.loss(Fixed(), WAVEGLOW.batch(WAVEGLOW.sizes["tiny"], 2, generator()), None)
    assert loss.item() == pytest.approx(4.5 - 0.25)


def test_one_convolution_for_all_layers_is_eight():
    """Weights are normalised for each output, so that a part of the large layer is a layer of its own."""
    config, module = tiny(WAVEGLOW)
    large = module.couplings[0].condition
    part = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(640, 2 * config.channels, 1))
    second = slice(2 * config.channels, 4 * config.channels)
    with torch.no_grad():
        for name in ("original0", "original1"):
            getattr(part.parametrizations.weight, name).copy_(
                getattr(large.parametrizations.weight, name)[second]
            )
        part.bias.copy_(large.bias[second])
        x = torch.randn(1, 640, 5)
        torch.testing.assert_close(large(x)[:, second], part(x))


def test_samples_go_into_groups_in_their_order():
    grouped = waveglow.grouped(torch.arange(32.0).view(1, 2, 16))
    assert grouped[0, :, 0].tolist() == [*range(8), *range(16, 24)]
    assert grouped[0, :, 1].tolist() == [*range(8, 16), *range(24, 32)]


def test_a_new_flow_rotates_and_does_not_mirror():
    for seed in range(6):
        torch.manual_seed(seed)
        mix = waveglow.orthogonal(8).detach()
        torch.testing.assert_close(mix @ mix.T, torch.eye(8), rtol=0, atol=1e-5)
        assert torch.linalg.det(mix).item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("network", [TACOTRON, FASTPITCH], ids=lambda network: network.name)
def test_padding_is_a_third_of_a_batch_and_no_unit(network):
    batch = network.batch(network.sizes["full"], 32, generator())
    share = 1 - network.units(batch) / network.padded_units(batch)
    assert network.units(batch) == batch["frames"].sum()
    assert 0.25 < share < 0.5


def test_without_chance_a_step_is_repeatable():
    config, module = tiny(TACOTRON)
    without_chance(module)
    batch = TACOTRON.batch(config, 2, generator())
    assert TACOTRON.loss(module, batch, None)[0] == TACOTRON.loss(module, batch, None)[0]


# Text to speech


class Clock:
    """Each look costs a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("network", [TACOTRON, FASTPITCH], ids=lambda network: network.name)
@pytest.mark.parametrize("chunk", [10, 1000])
def test_speech_in_chunks_is_the_speech_as_a_whole(network, chunk):
    config, vocoder_config = network.sizes["tiny"], WAVEGLOW.sizes["tiny"]
    torch.manual_seed(0)
    speaker = network.inference(network.build(config), config)
    _, module = trained()
    vocoder = WAVEGLOW.inference(module.float(), vocoder_config)
    inputs = network.inference_inputs(config, 1, generator())
    with torch.inference_mode():
        spectrogram, frames = speaker(*inputs)
        noise = torch.randn(1, 8, spectrogram.shape[2], 32, generator=generator())
        whole = vocoder(spectrogram, noise)
    voice = text_to_speech.TextToSpeech(speaker, vocoder, chunk)
    chunks = list(voice.stream(inputs, noise))
    assert len(chunks) == -(-int(frames.max()) // chunk)
    assert chunks[0].shape[1] == 256 * min(chunk, int(frames.max()))
    torch.testing.assert_close(torch.cat(chunks, 1), whole, rtol=1e-4, atol=1e-4 * whole.std().item())
    audio, spoken = voice.speak(inputs, noise, Clock(), lambda: None)
    assert torch.equal(audio, torch.cat(chunks, 1))
    # The clock is looked at before, after the first chunk, and at the end.
    assert (spoken.first_audio_s, spoken.seconds) == (1.0, 2.0)
    assert spoken.audio_s == int(frames.max()) * 256 / 22_050
    assert spoken.real_time_factor == spoken.audio_s / 2


def test_what_a_vocoder_sees_to_each_side():
    with torch.device("meta"):
        full = WAVEGLOW.build(WAVEGLOW.sizes["full"])
    # Twelve couplings of 255 groups of 8 samples, in frames of 256, and the four that a frame is spread over.
    assert text_to_speech.frames_in_sight(full) == 96 + 4
    with pytest.raises(ValueError, match="makes no audio"):
        text_to_speech.TextToSpeech(nn.Identity(), WAVEGLOW.inference(tiny(WAVEGLOW)[1], None), 0)
