"""Wrong answers are found before anything is timed: other channels, a layer less, other shapes."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from accelmark.engines import inference as engines
from accelmark.engines.inference import Load, Prepared
from accelmark.engines.pytorch import TorchDevice
from accelmark.job import Job
from accelmark.networks import registry
from accelmark.scenarios.agreement import BOUNDS, compare, disagreement
from accelmark.scenarios.inference import Answering
from accelmark.scenarios.ready import Ready, ready

JOB = Job(
    network="resnet50-v1.5", scenario="inference", size="tiny", engine="eager", precision="fp32", batch_size=4
)


@pytest.fixture(scope="module")
def asked() -> Ready:
    return ready(registry.load("resnet50-v1.5"), JOB, torch.device("cpu"))


class Changed(nn.Module):
    """Somebody's engine, which does something to the inputs or leaves a layer out."""

    def __init__(self, module: nn.Module, swap: bool) -> None:
        super().__init__()
        self.module, self.swap = copy.deepcopy(module), swap
        if not swap:
            self.module.layer4[0].bn3 = nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.module(images.flip(1) if self.swap else images)


@pytest.mark.parametrize("swap", [True, False])
def test_a_wrong_engine_is_caught(asked: Ready, swap: bool, tmp_path: Path) -> None:
    def wrong(load: Load) -> Prepared:
        return engines.prepare(Load(**{**vars(load), "module": Changed(load.module, swap)}))

    answering = Answering(asked, JOB, TorchDevice("cpu"), tmp_path, prepare=wrong)
    agreement = compare(answering.outputs(), asked.answers, "fp32", classes=True)
    assert agreement.relative_rms is not None
    assert agreement.relative_rms > 10 * BOUNDS["fp32"]
    why = disagreement(agreement, "fp32")
    assert why is not None
    assert "not those of eager fp32" in why


def test_the_right_engine_is_not(asked: Ready, tmp_path: Path) -> None:
    answering = Answering(asked, JOB, TorchDevice("cpu"), tmp_path)
    agreement = compare(answering.outputs(), asked.answers, "fp32", classes=True)
    assert agreement.top1 == 1
    assert agreement.samples == 16
    assert disagreement(agreement, "fp32") is None


def test_differences_are_what_they_are_called() -> None:
    reference = [[torch.tensor([[3.0, 4.0], [0.0, 5.0]])]]
    given = [[torch.tensor([[3.0, 4.5], [0.0, 5.0]])]]
    agreement = compare(given, reference, "int8", classes=True)
    rms = (50 / 4) ** 0.5
    assert agreement.relative_rms == pytest.approx(0.25 / rms)
    assert agreement.largest == pytest.approx(0.5 / rms)
    assert agreement.mean == pytest.approx(0.125 / rms)
    assert agreement.top1 == 1
    swapped = compare([[torch.tensor([[3.0, 2.0], [0.0, 5.0]])]], reference, "int8", classes=True)
    assert swapped.top1 == 0.5


def test_whole_numbers_are_counted_and_lists_of_finds_have_no_order() -> None:
    reference = [[torch.tensor([[1, 2, 3, 4]])]]
    assert compare([[torch.tensor([[1, 2, 3, 5]])]], reference, "fp32").equal == 0.75
    turned = [[torch.tensor([[4, 3, 2, 1]])]]
    assert disagreement(compare(turned, reference, "fp32"), "fp32")
    assert compare(turned, reference, "fp32", ordered=False).equal == 1


@pytest.mark.parametrize("given", [torch.tensor([[1.0, float("nan")]]), torch.tensor([[1.0, 2.0, 3.0]])])
def test_no_numbers_or_other_shapes_agree_with_nothing(given: torch.Tensor) -> None:
    agreement = compare([[given]], [[torch.tensor([[1.0, 2.0]])]], "int8")
    why = disagreement(agreement, "int8")
    assert why is not None
    assert "other shapes" in why


def test_what_stands_for_infinity_is_not_compared() -> None:
    reference = [[torch.tensor([[1.0, -1e9]])]]
    assert compare([[torch.tensor([[1.0, -3e8]])]], reference, "fp32").relative_rms == 0
