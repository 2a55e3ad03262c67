"""Jasper, QuartzNet and RNN-T: what only networks that recognise speech can get wrong."""

import math

import librosa
import numpy as np
import pytest
import torch
from torchaudio.functional import rnnt_loss

from accelmark.networks.novograd import NovoGrad
from accelmark.networks.speech import acoustic, clips, features, rnnt, streaming

from .sweep import NETWORKS, generator, tiny

RECOGNISERS = [NETWORKS["jasper-10x5dr"], NETWORKS["quartznet-15x5"]]
RNNT = NETWORKS["rnnt"]


def audio(samples, rate, rows=1):
    return clips.voices(torch.tensor([samples] * rows), rate, generator())


# The front end


def test_recognition_features_are_librosas():
    heard = audio(16_001, 16_000)
    ours, frames = features.RecognitionFeatures(64)(heard, torch.tensor([16_001]))
    emphasised = librosa.effects.preemphasis(heard[0].numpy(), coef=0.97, zi=[0.0])
    window = librosa.filters.get_window("hann", 320, fftbins=False)
    mel = librosa.feature.melspectrogram(
        y=emphasised, sr=16_000, n_fft=512, hop_length=160, win_length=320, window=window, n_mels=64,
        pad_mode="reflect", power=2.0,
    )  # fmt: skip
    theirs = np.log(mel + 1e-20)
    theirs = (theirs - theirs.mean(1, keepdims=True)) / theirs.std(1, ddof=1, keepdims=True)
    assert frames.tolist() == [101]
    # Features have a deviation of 1.
    np.testing.assert_allclose(ours[0].numpy(), theirs, atol=2e-3)


def test_synthesis_features_are_librosas():
    heard = audio(22_050, 22_050)
    ours = features.SynthesisFeatures()(heard)
    mel = librosa.feature.melspectrogram(
        y=heard[0].numpy(), sr=22_050, n_fft=1024, hop_length=256, n_mels=80, fmax=8000, pad_mode="reflect",
        power=1.0,
    )  # fmt: skip
    np.testing.assert_allclose(ours[0].numpy(), np.log(np.maximum(mel, 1e-5)), atol=1e-3)


def test_a_tone_twice_as_loud_has_four_times_the_energy():
    log_mel = features.RecognitionFeatures(64).log_mel
    heard = audio(8000, 16_000)
    difference = log_mel(2 * heard) - log_mel(heard)
    assert difference.mean().item() == pytest.approx(math.log(4), rel=1e-3)


def test_an_utterance_has_the_same_features_in_longer_company():
    front = features.RecognitionFeatures(64)
    heard = audio(20_001, 16_000, rows=2)
    heard[0, 12_001:] = 0
    together, frames = front(heard, torch.tensor([12_001, 20_001]))
    alone, _ = front(heard[:1, :12_001], torch.tensor([12_001]))
    assert frames.tolist() == [76, 126]
    # The last frame sees silence instead of a mirror, and the statistics hold it, too.
    raw = [front.log_mel(features.emphasised(each))[0, :, :75] for each in (heard, heard[:1, :12_001])]
    torch.testing.assert_close(raw[0], raw[1])
    torch.testing.assert_close(together[0, :, :75], alone[0, :, :75], atol=0.4, rtol=0)
    assert (together[0, :, 76:] == 0).all()
    assert together[1].mean(1).abs().max() < 1e-4
    assert together[1].std(1).sub(1).abs().max() < 1e-3


# What a batch holds


def test_lengths_have_the_corpora_s_means():
    random = generator()
    characters, frames = clips.spoken_texts(20_000, 1.0, random)
    assert characters.double().mean().item() == pytest.approx(99.9, rel=0.01)
    assert frames.double().mean().item() * 256 / 22_050 == pytest.approx(6.57, rel=0.02)
    samples, letters = clips.utterances(clips.LIBRISPEECH, 20_000, 1.0, random)
    assert samples.double().mean().item() / 16_000 == pytest.approx(12.3, rel=0.02)
    assert (letters.sum() / samples.sum()).item() * 16_000 == pytest.approx(14.5, rel=0.02)
    samples, _ = clips.utterances(clips.DEV_CLEAN, 20_000, 1.0, random)
    assert samples.double().mean().item() / 16_000 == pytest.approx(7.18, rel=0.02)


def test_small_batches_are_about_as_long_as_large_ones():
    means = [clips.draw(clips.LIBRISPEECH, 64, generator(seed)).mean().item() for seed in range(50)]
    # Independent draws of a deviation of 3.8 s would differ by 0.5.
    assert np.std(means) < 0.02


@pytest.mark.parametrize("network", RECOGNISERS, ids=lambda network: network.name)
def test_a_full_batch_can_be_spelt(network):
    batch = network.batch(network.sizes["full"], 4, generator())
    assert batch["audio"].shape[1] // 160 % 16 == 15  # with one frame more than hops a multiple of 16
    for row, (frames, letters) in enumerate(zip(batch["frames"], batch["characters"], strict=True)):
        text = batch["texts"][row, :letters]
        assert frames == -(-batch["lengths"][row] // 320)
        assert frames >= letters + (text[1:] == text[:-1]).sum()


# Jasper and QuartzNet


def test_letters_are_spelt_once_while_they_last():
    blank = acoustic.BLANK
    frames = torch.tensor([[1, 1, blank, 1, 2, 2, blank, blank], [blank] * 8, [3, 4, 3, 4, 4, 3, 3, 3]])
    letters, counts = acoustic.collapsed(frames)
    assert counts.tolist() == [3, 0, 5]
    assert letters[0].tolist() == [1, 1, 2] + [blank] * 5
    assert letters[1].tolist() == [blank] * 8
    assert letters[2].tolist() == [3, 4, 3, 4, 3] + [blank] * 3


@pytest.mark.parametrize("network", RECOGNISERS, ids=lambda network: network.name)
def test_an_utterance_is_spelt_the_same_in_longer_company(network):
    _, module = tiny(network)
    module.eval()
    x = torch.randn(2, 64, 90)
    x[0, :, 61:] = 0
    with torch.no_grad():
        together, frames = module.spell(x, torch.tensor([61, 90]))
        alone, _ = module.spell(x[:1, :, :61], torch.tensor([61]))
    assert frames.tolist() == [31, 45]
    torch.testing.assert_close(together[:31, 0], alone[:, 0], atol=1e-5, rtol=1e-5)


def test_jasper_adds_the_inputs_of_all_blocks_before():
    sides = [[part.parts[0].in_channels for part in block.sides] for block in full(RECOGNISERS[0]).blocks]
    inputs = [256, 256, 256, 384, 384, 512, 512, 640, 640, 768]
    assert sides == [[], *(inputs[: i + 1] for i in range(10)), [], []]


def test_quartznet_adds_the_input_of_its_block():
    sides = [[part.parts[0].in_channels for part in block.sides] for block in full(RECOGNISERS[1]).blocks]
    assert sides == [[], *([256] for _ in range(7)), *([512] for _ in range(8)), [], []]


def full(network):
    with torch.device("meta"):
        return network.build(network.sizes["full"])


def test_masks_hide_two_bands_and_two_stretches_of_each_utterance():
    torch.manual_seed(0)
    augment = acoustic.SpecAugment(20, 75)
    kept = augment(torch.ones(400, 64, 1000))
    bands = (kept.amax(2) == 0).sum(1).double()
    times = (kept.amax(1) == 0).sum(1).double()
    assert bands.max() <= 40
    assert times.max() <= 150
    # Widths are 10 and 37.5 in the mean, and two masks seldom overlap.
    assert 15 < bands.mean() < 20
    assert 70 < times.mean() < 75
    assert torch.equal(augment.eval()(kept), kept)


@pytest.mark.parametrize("beta2", [0.0, 0.98])
def test_novograd_follows_the_formula(beta2):
    torch.manual_seed(0)
    ours = [torch.randn(3, 4).requires_grad_(), torch.randn(5).requires_grad_()]
    theirs = [p.detach().double() for p in ours]
    optimizer = NovoGrad(ours, lr=0.1, betas=(0.9, beta2), weight_decay=0.01)
    moments, squares = [0.0, 0.0], [None, None]
    for _ in range(4):
        for i, p in enumerate(ours):
            p.grad = torch.randn_like(p)
            g = p.grad.double()
            square = g.square().sum()
            squares[i] = square if squares[i] is None else beta2 * squares[i] + (1 - beta2) * square
            moments[i] = 0.9 * moments[i] + g / (squares[i].sqrt() + 1e-8) + 0.01 * theirs[i]
            theirs[i] = theirs[i] - 0.1 * moments[i]
        optimizer.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.detach().double(), other, rtol=1e-5, atol=1e-6)


# Streams


@pytest.mark.parametrize("chunk_ms", [100, 800, 3200])
@pytest.mark.parametrize("network", RECOGNISERS, ids=lambda network: network.name)
def test_in_chunks_it_hears_the_same_as_at_once(network, chunk_ms):
    _, module = tiny(network)
    module.train()
    for seed in range(3):  # statistics of their own for the normalisations
        module.spell(torch.randn(4, 64, 100, generator=generator(seed)), torch.tensor([100] * 4))
    module.eval()
    heard = audio(16_000 * 4 + 77, 16_000, rows=2)
    raw = module.features.log_mel(features.emphasised(heard))
    frames = features.frame_counts(torch.tensor([heard.shape[1]] * 2))
    mean, deviation = features.statistics(raw, features.real_frames(raw, frames), frames)
    with torch.inference_mode():
        whole, _ = module(heard, torch.tensor([heard.shape[1]] * 2))
    stream = streaming.RecogniserStream(module, mean, deviation)
    pieces = heard.split(16 * chunk_ms, dim=1)
    answers = [stream.push(piece, final=piece is pieces[-1]) for piece in pieces]
    torch.testing.assert_close(torch.cat(answers), whole, atol=1e-4, rtol=1e-4)
    # What is answered before the end comes as soon as what it looks ahead is there.
    known = len(torch.cat(answers[:-1]))
    ahead = streaming.look_ahead_s(module)
    fed = sum(piece.shape[1] for piece in pieces[:-1]) / 16_000
    assert known == pytest.approx(max(0, fed - ahead) / 0.02, abs=2)


def test_jasper_and_quartznet_look_ahead_as_far_as_is_said():
    assert streaming.look_ahead_s(full(RECOGNISERS[0])) == pytest.approx(JASPER_S, abs=0.05)
    assert streaming.look_ahead_s(full(RECOGNISERS[1])) == pytest.approx(QUARTZNET_S, abs=0.05)


#: Half kernels of the blocks, five times each, in frames of 20 ms, the first in those of 10; half a window.
JASPER_S = 0.02 * (5 * 2 * (5 + 6 + 8 + 10 + 12) + 28) + 0.01 * 5 + 0.016
QUARTZNET_S = 0.02 * (5 * 3 * (16 + 19 + 25 + 31 + 37) + 86) + 0.01 * 16 + 0.016


def test_a_stream_says_what_it_cannot_begin_with():
    _, module = tiny(RECOGNISERS[0])
    zero, one = torch.zeros(1, 64, 1), torch.ones(1, 64, 1)
    with pytest.raises(ValueError, match="evaluation mode"):
        streaming.RecogniserStream(module, zero, one)
    with pytest.raises(ValueError, match="more than 256 samples"):
        streaming.RecogniserStream(module.eval(), zero, one).push(torch.zeros(1, 200))


# RNN-T


def naive_transducer(scores, text):
    """Minus the logarithm of a text's chance, by Graves' recursion over steps and letters, in float64."""
    log = scores.double().log_softmax(-1)
    steps, places, _ = log.shape
    alpha = {(0, 0): log.new_zeros(())}
    for t in range(steps):
        for u in range(places):
            ways = []
            if t > 0:
                ways.append(alpha[t - 1, u] + log[t - 1, u, acoustic.BLANK])
            if u > 0:
                ways.append(alpha[t, u - 1] + log[t, u - 1, text[u - 1]])
            if ways:
                alpha[t, u] = torch.stack(ways).logsumexp(0)
    return -(alpha[steps - 1, places - 1] + log[-1, -1, acoustic.BLANK])


def test_the_transducer_loss_and_its_gradient_are_those_of_the_recursion():
    torch.manual_seed(0)
    scores = torch.randn(2, 6, 4, 29, requires_grad=True)
    texts = torch.randint(28, (2, 3))
    steps, letters = torch.tensor([6, 4]), torch.tensor([3, 2])
    ours = rnnt_loss(scores, texts.int(), steps.int(), letters.int(), acoustic.BLANK, reduction="none")
    (gradient,) = torch.autograd.grad(ours.sum(), scores)
    naive = torch.stack([naive_transducer(scores[i, : steps[i], : letters[i] + 1], texts[i]) for i in (0, 1)])
    (wanted,) = torch.autograd.grad(naive.sum(), scores)
    torch.testing.assert_close(ours.double(), naive, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_the_joint_layer_on_both_is_that_on_each_pair():
    _, module = tiny(RNNT)
    module.eval()
    heard, spelt = torch.randn(2, 5, 64), torch.randn(2, 3, 32)
    ours = module.next_letter(
        torch.nn.functional.linear(heard, module.joint.weight[:, :64], module.joint.bias).unsqueeze(2),
        module.of_letters(spelt).unsqueeze(1),
    )
    for t in range(5):
        for u in range(3):
            pair = module.joint(torch.cat([heard[:, t], spelt[:, u]], -1)).relu()
            torch.testing.assert_close(ours[:, t, u], module.scores(pair), rtol=1e-4, atol=1e-5)


def test_frames_are_put_together_in_their_order():
    x = torch.arange(14.0).view(1, 7, 2)
    assert rnnt.together(x, 3)[0].tolist() == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10, 11],
        [12, 13, 0, 0, 0, 0],
    ]


def one_after_the_other(module, audio, lengths):
    """Greedy decoding of each utterance by itself, through the layers as training runs them."""
    texts = []
    heard, steps = module.hear(audio, lengths)
    for row in range(len(audio)):
        text = []
        for step in range(steps[row]):
            for _ in range(rnnt.LETTERS_A_STEP):
                spelt = module.embedding(torch.tensor([text], dtype=torch.long))
                spelt = module.letters(torch.nn.functional.pad(spelt, (0, 0, 1, 0)))[:, -1]
                best = module.next_letter(heard[row, step][None], module.of_letters(spelt)).argmax().item()
                if best == acoustic.BLANK:
                    break
                text.append(best)
        texts.append(text)
    return texts


def test_side_by_side_the_same_letters_are_found_as_one_after_the_other(monkeypatch):
    config, module = tiny(RNNT)
    speller = RNNT.inference(module, config)
    # An untrained network that has found a letter finds it again and again.
    monkeypatch.setattr(rnnt, "LETTERS_A_STEP", 2)
    # Of audio and letters that matter as much as they do to a trained one.
    heard, steps = (
        2 * torch.randn(3, 20, config.joint_width, generator=generator()),
        torch.tensor([20, 13, 9]),
    )
    module.hear = lambda audio, lengths: (heard, steps)
    with torch.no_grad():
        module.joint.weight *= 30
        module.scores.bias[acoustic.BLANK] += 2.0
        letters, counts = speller(None, None)
        expected = [text[: letters.shape[1]] for text in one_after_the_other(module, heard, None)]
    assert [row[:count].tolist() for row, count in zip(letters, counts, strict=True)] == expected
    assert any(0 < len(text) < letters.shape[1] for text in expected), expected
    assert len({letter for text in expected for letter in text}) > 3
