import copy
import math

import pytest
import torch

from accelmark.networks.lamb import Lamb

RATE, BETA1, BETA2, EPSILON, DECAY = 0.02, 0.8, 0.95, 1e-6, 0.1


def lamb(parameters, **changes):
    settings = {"lr": RATE, "betas": (BETA1, BETA2), "eps": EPSILON, "weight_decay": DECAY, **changes}
    return Lamb(parameters, **settings)


def naive_step(weights, gradients, moments, step, decay=DECAY):
    """The paper's algorithm 2 for one tensor, number by number."""
    updates = []
    for i, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        mean, square = moments[i]
        mean = BETA1 * mean + (1 - BETA1) * gradient
        square = BETA2 * square + (1 - BETA2) * gradient**2
        moments[i] = mean, square
        corrected = mean / (1 - BETA1**step), square / (1 - BETA2**step)
        updates.append(corrected[0] / (math.sqrt(corrected[1]) + EPSILON) + decay * weight)
    norm = math.sqrt(sum(w**2 for w in weights))
    update_norm = math.sqrt(sum(u**2 for u in updates))
    ratio = norm / update_norm if decay and norm and update_norm else 1.0
    return [w - RATE * ratio * u for w, u in zip(weights, updates, strict=True)]


@pytest.mark.parametrize("decay", [DECAY, 0.0])
def test_steps_equal_the_naive_computation(decay):
    torch.manual_seed(0)
    tensors = [torch.randn(3, 2, dtype=torch.float64), 5 * torch.randn(4, dtype=torch.float64)]
    parameters = [torch.nn.Parameter(t.clone()) for t in tensors]
    expected = [t.flatten().tolist() for t in tensors]
    moments = [[(0.0, 0.0)] * t.numel() for t in tensors]
    optimizer = lamb(parameters, weight_decay=decay)
    for step in range(1, 5):
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.randn_like(parameter)
            gradients = parameter.grad.flatten().tolist()
            expected[i] = naive_step(expected[i], gradients, moments[i], step, decay)
        optimizer.step()
        for parameter, numbers in zip(parameters, expected, strict=True):
            assert parameter.flatten().tolist() == pytest.approx(numbers, rel=1e-12)


def test_each_tensor_moves_by_the_rate_times_its_own_norm():
    # The first step of Adam is the gradient's signs; without weight decay worth the name only its norm
    # would decide, and LAMB replaces it by the weight's.
    small, large = torch.full((8,), 0.1), torch.full((8, 8), 3.0)
    parameters = [torch.nn.Parameter(small.clone()), torch.nn.Parameter(large.clone())]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 7.0)
    lamb(parameters, weight_decay=1e-9).step()
    for parameter, before in zip(parameters, (small, large), strict=True):
        moved = (parameter.detach() - before).norm().item()
        assert moved == pytest.approx(RATE * before.norm().item(), rel=1e-4)


def test_zero_weights_and_zero_gradients_are_stepped_without_a_ratio():
    zero, idle = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2))
    zero.grad, idle.grad = torch.ones(3), torch.zeros(2)
    lamb([zero, idle]).step()
    assert zero.tolist() == pytest.approx([-RATE] * 3, rel=1e-4)
    assert idle.tolist() == [0.0, 0.0]


def test_parameters_without_a_gradient_stay():
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    used.grad = torch.ones(2)
    optimizer = lamb([{"params": [used, unused]}, {"params": [torch.nn.Parameter(torch.ones(1))]}])
    optimizer.step()
    assert unused.tolist() == [1.0, 1.0]
    assert used.tolist() != [1.0, 1.0]
    assert list(optimizer.state) == [used]


def test_continues_from_its_saved_state():
    def parameter(values):
        return torch.nn.Parameter(torch.tensor(values))

    def step(optimizer, weight, gradient):
        weight.grad = torch.tensor(gradient)
        optimizer.step()

    straight = parameter([1.0, 2.0])
    optimizer = lamb([straight])
    step(optimizer, straight, [0.5, -1.0])
    saved = copy.deepcopy(optimizer.state_dict())
    resumed = parameter(straight.tolist())
    fresh = lamb([resumed])
    fresh.load_state_dict(saved)
    step(optimizer, straight, [0.1, 0.2])
    step(fresh, resumed, [0.1, 0.2])
    assert torch.equal(straight, resumed)


def test_closure_is_called_with_gradients_and_its_loss_returned():
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = lamb([weight])

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert weight.item() < 2.0
