"""MLCommons' training reference of RNN-T as a peer, from the user's clone of mlcommons/training.

Nothing of it is copied here. It is made with the numbers of MLPerf inference's network, which ours is: 29
letters in place of 1,024 pieces of words, and two LSTM layers of 320 over them. It has a bias more, because
it multiplies audio and letters each by a layer of its own; MLPerf inference's code, which multiplies each
pair of them, would be the slower peer. What stands in: our log-mel features for DALI's, inside of the step as
ours are; torchaudio's transducer loss for warp-transducer's; our LAMB for apex's, as torch has none. MLPerf's
logging does nothing, and apex's mixed precision is not used.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peer import Peer, load, stand_in
from torch import Tensor
from torchaudio.functional import rnnt_loss

from accelmark.networks.lamb import Lamb
from accelmark.networks.speech.features import RecognitionFeatures


def rnnt(examples: Path, config: Any) -> Peer:
    """retired_benchmarks/rnnt/pytorch."""
    folder = examples / "retired_benchmarks/rnnt/pytorch"
    stand_in("apex.amp")
    stand_in(
        "mlperf.logging",
        log_event=lambda *event, **values: None,
        constants=types.SimpleNamespace(WEIGHTS_INITIALIZATION=None),
    )
    before, after = config.layers
    module = load(folder, "rnnt.model").RNNT(
        n_classes=29,
        in_feats=3 * config.mels,
        enc_n_hid=config.width,
        enc_pre_rnn_layers=before,
        enc_post_rnn_layers=after,
        enc_stack_time_factor=2,
        enc_dropout=config.dropout,
        pred_dropout=config.dropout,
        joint_dropout=config.dropout,
        pred_n_hid=config.letters_width,
        pred_rnn_layers=2,
        joint_n_hid=config.joint_width,
        forget_gate_bias=1.0,
    )
    # As a folder only: the package would import DALI, and what reads texts.
    stand_in("common.data", __path__=[str(folder / "common/data")])
    source = load(folder, "common.data.features")
    features = RecognitionFeatures(config.mels)
    augment = source.SpecAugment(
        optim_level=0,
        freq_masks=2,
        max_freq=config.masked_mels,
        time_masks=2,
        max_time=config.masked_frames,
    )
    splice = source.FrameSplicing(optim_level=0, frame_stacking=3, frame_subsampling=3)

    def loss(batch: Any, state: None) -> tuple[Tensor, None]:
        texts, characters = batch["texts"], batch["characters"]
        with torch.no_grad():
            x, frames = splice(augment(features(batch["audio"], batch["lengths"])))
        scores, steps = module(x.permute(2, 0, 1), frames, texts, characters)
        scores = scores[:, : int(steps.max())]
        losses = rnnt_loss(scores, texts.int(), steps.int(), characters.int(), blank=28, reduction="none")
        return losses.mean(), None

    optimizer = Lamb(
        module.parameters(), lr=config.learning_rate, betas=(0.9, 0.999), eps=1e-9, weight_decay=1e-3
    )
    return Peer(module, optimizer, loss)


PEERS: dict[str, Callable[[Path, Any], Peer]] = {"rnnt": rnnt}
