"""Jasper 10x5 DR: An End-to-End Convolutional Neural Acoustic Model (Li et al., 2019), on LibriSpeech.

Ten blocks of five convolutions, each block with all inputs before it added (arXiv:1904.03288), in NVIDIA's
PyTorch configuration: 64 mel bands, letters as output, CTC, NovoGrad at 0.01 and SpecAugment. 332,632,349
parameters; the paper says 333 million. Different: a constant learning rate, no average of weights for
evaluation, no change of speed, which makes other audio of audio.
"""

from __future__ import annotations

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.speech.acoustic import AcousticConfig, Block, Recogniser, rows_of_blocks


@register
class Jasper(Recogniser):
    """The dense residual form with ten blocks, 10x5 DR."""

    name = "jasper-10x5dr"
    title = "Jasper 10x5 DR"
    quality = QualityTarget("dev-clean WER, %", 3.53)
    paper = "https://arxiv.org/abs/1904.03288"
    reference = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/SpeechRecognition/Jasper"
    sizes = {
        "full": AcousticConfig(
            batch_size=64,
            dense=True,
            masked_mels=20,
            masked_frames=75,
            blocks=(
                Block(256, 11, dropout=0.2, stride=2, residual=False),
                *rows_of_blocks(
                    [
                        (2, 256, 11, 0.2),
                        (2, 384, 13, 0.2),
                        (2, 512, 17, 0.2),
                        (2, 640, 21, 0.3),
                        (2, 768, 25, 0.3),
                    ]
                ),
                Block(896, 29, dropout=0.4, dilation=2, residual=False),
                Block(1024, 1, dropout=0.4, residual=False),
            ),
        ),
        "tiny": AcousticConfig(
            batch_size=8,
            dense=True,
            masked_mels=6,
            masked_frames=8,
            scale=0.1,
            blocks=(
                Block(32, 11, stride=2, residual=False),
                Block(32, 11, repeats=2, dropout=0.1),
                Block(48, 13, repeats=2, dropout=0.1),
                Block(64, 29, dilation=2, residual=False),
                Block(64, 1, residual=False),
            ),
        ),
    }
