"""QuartzNet 15x5: Deep Automatic Speech Recognition with 1D Time-Channel Separable Convolutions (2020).

Fifteen blocks of five separable convolutions (Kriman et al., arXiv:1910.10261), in NVIDIA's PyTorch
configuration: 64 mel bands, letters as output, CTC, NovoGrad at 0.01 and SpecAugment. 18,924,381 parameters;
the paper says 18.9 million. Different: a constant learning rate, no average of weights for evaluation, no
change of speed, which makes other audio of audio.
"""

from __future__ import annotations

from accelmark.networks.base import QualityTarget
from accelmark.networks.registry import register
from accelmark.networks.speech.acoustic import AcousticConfig, Block, Recogniser, rows_of_blocks


@register
class QuartzNet(Recogniser):
    """The largest of the paper's three, 15x5."""

    name = "quartznet-15x5"
    title = "QuartzNet 15x5"
    quality = QualityTarget("dev-clean WER, %", 3.90)
    paper = "https://arxiv.org/abs/1910.10261"
    reference = (
        "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/SpeechRecognition/QuartzNet"
    )
    sizes = {
        "full": AcousticConfig(
            batch_size=144,
            dense=False,
            masked_mels=15,
            masked_frames=55,
            blocks=(
                Block(256, 33, stride=2, residual=False, separable=True),
                *rows_of_blocks(
                    [(3, 256, 33, 0), (3, 256, 39, 0), (3, 512, 51, 0), (3, 512, 63, 0), (3, 512, 75, 0)],
                    separable=True,
                ),
                Block(512, 87, dilation=2, residual=False, separable=True),
                Block(1024, 1, residual=False),
            ),
        ),
        "tiny": AcousticConfig(
            batch_size=8,
            dense=False,
            masked_mels=5,
            masked_frames=6,
            scale=0.1,
            blocks=(
                Block(32, 33, stride=2, residual=False, separable=True),
                Block(32, 33, repeats=2, separable=True),
                Block(48, 39, repeats=2, separable=True),
                Block(64, 87, dilation=2, residual=False, separable=True),
                Block(64, 1, residual=False),
            ),
        ),
    }
