"""LAMB: Large Batch Optimization for Deep Learning, Training BERT in 76 minutes (You et al., 2019).

Written from the paper (arXiv:1904.00962), with the choices of the recipes behind the published rows: both
moments are corrected for their start at zero, and parameters without weight decay (biases, layer
normalisation) take plain Adam steps. Clipping the gradient's norm, which some implementations do inside,
is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class Lamb(torch.optim.Optimizer):  # type: ignore[misc]  # torch is untyped to mypy here
    """Adam whose step is scaled, tensor by tensor, to the norm of what it changes.

    All tensors of a group are updated together by a few dozen kernels, and nothing waits for the device.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "step": 0}
        super().__init__(params, defaults)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                group["step"] += 1
                self._update(group, parameters)
        return loss

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        gradients = [p.grad for p in parameters]
        means = [self._moment(p, "mean") for p in parameters]
        squares = [self._moment(p, "square") for p in parameters]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)

        deviations = torch._foreach_div(squares, 1 - beta2 ** group["step"])
        torch._foreach_sqrt_(deviations)
        torch._foreach_add_(deviations, group["eps"])
        updates = torch._foreach_div(means, 1 - beta1 ** group["step"])
        torch._foreach_div_(updates, deviations)

        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            weight = torch.stack(torch._foreach_norm(parameters))
            update = torch.stack(torch._foreach_norm(updates))
            # A tensor of zeros would never leave zero, and one without an update has no direction.
            ratio = torch.where((weight > 0) & (update > 0), weight / update, 1.0)
            torch._foreach_mul_(updates, ratio.unbind())
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moment(self, parameter: Tensor, name: str) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.zeros_like(parameter)
        moment: Tensor = state[name]
        return moment
