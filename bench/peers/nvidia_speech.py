"""NVIDIA's PyTorch examples of speech: their own model and loss, from the user's clone.

Nothing of it is copied here. Librosa, which their files import, is among this project's tools for
development. Optimisers are those that the recipes name where these run on a CPU: torch's Adam for Tacotron 2
and WaveGlow, and the NovoGrad that Jasper brings. QuartzNet's is apex's of the same kind, for which the one
that it brings stands in; FastPitch's is apex's LAMB, for which ours stands in on both sides, as torch has
none.

FastPitch is in the clone as version 1.1, which learns how long letters last while it trains. The recipe of
April 2021, which ours is, takes durations and mean pitches from its data: here what learns and counts them is
replaced by them, and its loss is 0. All else of version 1.1 runs as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from peer import Peer, load
from torch import Tensor, nn

from accelmark.networks.lamb import Lamb

SYNTHESIS = "PyTorch/SpeechSynthesis"


def tacotron2(examples: Path, config: Any) -> Peer:
    """PyTorch/SpeechSynthesis/Tacotron2, for batches of two and more."""
    folder = examples / SYNTHESIS / "Tacotron2"
    module = load(folder, "tacotron2.model").Tacotron2(
        mask_padding=False,
        n_mel_channels=80,
        n_symbols=config.symbols,
        symbols_embedding_dim=config.width,
        encoder_kernel_size=5,
        encoder_n_convolutions=3,
        encoder_embedding_dim=config.width,
        attention_rnn_dim=config.lstm_width,
        attention_dim=config.attention_width,
        attention_location_n_filters=config.location_filters,
        attention_location_kernel_size=config.location_kernel,
        n_frames_per_step=1,
        decoder_rnn_dim=config.lstm_width,
        prenet_dim=config.before_width,
        max_decoder_steps=2000,
        gate_threshold=0.5,
        p_attention_dropout=0.1,
        p_decoder_dropout=0.1,
        postnet_embedding_dim=config.after_width,
        postnet_kernel_size=5,
        postnet_n_convolutions=5,
        decoder_no_early_stopping=False,
    )
    criterion = load(folder, "tacotron2.loss_function").Tacotron2Loss()

    def convert(batch: Any) -> Any:
        text, lengths, frames = batch["text"], batch["lengths"], batch["frames"]
        if len(text) < 2:
            raise SystemExit("NVIDIA's Tacotron 2 trains on two clips and more: tacotron2:2")
        inputs = (text, lengths, batch["spectrogram"], text.shape[1], frames)
        return inputs, (batch["spectrogram"], batch["stops"])

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        inputs, targets = batch
        return criterion(module(inputs), targets), None

    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-6)
    return Peer(module, optimizer, loss, convert)


def waveglow(examples: Path, config: Any) -> Peer:
    """PyTorch/SpeechSynthesis/Tacotron2, its WaveGlow."""
    folder = examples / SYNTHESIS / "Tacotron2"
    module = load(folder, "waveglow.model").WaveGlow(
        n_mel_channels=80,
        n_flows=config.flows,
        n_group=8,
        n_early_every=4,
        n_early_size=2,
        WN_config={"n_layers": config.layers, "kernel_size": 3, "n_channels": config.channels},
    )
    criterion = load(folder, "waveglow.loss_function").WaveGlowLoss(sigma=1.0)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        return criterion(module(batch), batch[1]), None

    return Peer(module, torch.optim.Adam(module.parameters(), lr=1e-4), loss)


class Given(nn.Module):
    """Durations that come with the batch, in the place of an alignment that would be learnt."""

    def forward(self, *inputs: Any, attn_prior: Tensor, **others: Any) -> tuple[Tensor, None]:
        return attn_prior, None


class Nothing(nn.Module):
    """A loss of 0."""

    def forward(self, *inputs: Any) -> Tensor:
        return torch.zeros(())


def fastpitch(examples: Path, config: Any) -> Peer:
    """PyTorch/SpeechSynthesis/FastPitch, with durations and pitches as its first version has them."""
    folder = examples / SYNTHESIS / "FastPitch"
    source = load(folder, "fastpitch.model")
    transformers = {
        f"{side}_fft_{name}": value
        for side in ("in", "out")
        for name, value in {
            "n_layers": config.layers,
            "n_heads": 1,
            "d_head": config.head_width,
            "conv1d_kernel_size": 3,
            "conv1d_filter_size": config.inner_width,
            "output_size": config.width,
        }.items()
    }
    dropouts = {
        f"p_{side}_fft_{name}": value
        for side in ("in", "out")
        for name, value in {"dropout": config.dropout, "dropatt": config.dropout, "dropemb": 0.0}.items()
    }
    predictors = {
        f"{name}_predictor_{key}": value
        for name in ("dur", "pitch", "energy")
        for key, value in {"kernel_size": 3, "filter_size": config.predictor_width, "n_layers": 2}.items()
    }
    module = source.FastPitch(
        n_mel_channels=80,
        n_symbols=config.symbols,
        padding_idx=0,
        symbols_embedding_dim=config.width,
        pitch_embedding_kernel_size=3,
        energy_conditioning=False,
        energy_embedding_kernel_size=3,
        n_speakers=1,
        speaker_emb_weight=1.0,
        p_dur_predictor_dropout=config.dropout,
        p_pitch_predictor_dropout=config.dropout,
        p_energy_predictor_dropout=config.dropout,
        **transformers,
        **dropouts,
        **predictors,
    )
    module.attention = Given()
    module.binarize_attention = lambda alignment, *lengths: alignment
    source.average_pitch = lambda pitch, durations: pitch
    criterion = load(folder, "fastpitch.loss_function").FastPitchLoss(
        dur_predictor_loss_scale=0.1, pitch_predictor_loss_scale=0.1, attn_loss_scale=0.0
    )
    criterion.attn_ctc_loss = Nothing()

    def convert(batch: Any) -> Any:
        lengths, frames, spectrogram = batch["lengths"], batch["frames"], batch["spectrogram"]
        durations = batch["durations"][:, None, None]
        pitch = batch["pitch"].unsqueeze(1)
        inputs = (batch["text"], lengths, spectrogram, frames, pitch, None, None, durations, None)
        return inputs, (spectrogram, lengths, frames)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        inputs, targets = batch
        return criterion(module(inputs), targets)[0], None

    optimizer = Lamb(
        module.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=1e-6
    )
    return Peer(module, optimizer, loss, convert)


def recogniser(example: str, settings: str) -> Callable[[Path, Any], Peer]:
    """PyTorch/SpeechRecognition's `example`, with the settings of its own file."""

    def make(examples: Path, config: Any) -> Peer:
        folder = examples / "PyTorch/SpeechRecognition" / example
        package = example.lower()
        source = load(folder, f"{package}.model")
        features = load(folder, "common.features")
        # By way of text: blocks that its file repeats are one object, which the model changes.
        every = json.loads(json.dumps(yaml.safe_load((folder / "configs" / settings).read_text("utf-8"))))
        classes = len(every["labels"]) + 1
        module = getattr(source, example)(
            encoder_kw=every[package]["encoder"],
            decoder_kw={"n_classes": classes, **every[package]["decoder"]},
        )
        criterion = source.CTCLossNM(n_classes=classes)
        # Without its noise of 1e-5, which it would add to the audio that both sides share.
        filterbank = every["input_train"]["filterbank_features"] | {"dither": 0.0}
        process = features.FilterbankFeatures(**filterbank)

        def convert(batch: Any) -> Any:
            return batch["audio"], batch["lengths"], batch["texts"], torch.tensor(batch["characters"])

        def loss(batch: Any, state: None) -> tuple[Tensor, None]:
            audio, lengths, texts, characters = batch
            chances, frames = module(*process(audio, lengths))
            return criterion(chances, texts, frames, characters), None

        novograd = load(folder, "common.optimizers").Novograd
        optimizer = novograd(module.parameters(), lr=0.01, betas=(0.95, 0), weight_decay=1e-3)
        return Peer(module, optimizer, loss, convert)

    return make


PEERS: dict[str, Callable[[Path, Any], Peer]] = {
    "tacotron2": tacotron2,
    "waveglow": waveglow,
    "fastpitch": fastpitch,
    "jasper-10x5dr": recogniser("Jasper", "jasper10x5dr_speedp-online_speca.yaml"),
    "quartznet-15x5": recogniser("QuartzNet", "quartznet15x5_speedp-online-1.15_speca.yaml"),
}
