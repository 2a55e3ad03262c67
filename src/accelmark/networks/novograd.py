"""NovoGrad: Stochastic Gradient Methods with Layer-wise Adaptive Moments (Ginsburg et al., 2019).

Written from the paper (arXiv:1905.11286), with the choices of the recipes behind the published rows: the
first moment is a sum, not a mean, and the second is the last gradient's norm alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class NovoGrad(torch.optim.Optimizer):  # type: ignore[misc]  # torch is untyped to mypy here
    """Momentum over gradients that are brought to length 1, tensor by tensor.

    All tensors of a group are updated together by a few kernels, and nothing waits for the device.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.95, 0.0),
        eps: float = 1e-8,
        weight_decay: float = 0.001,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

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
                self._update(group, parameters)
        return loss

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        gradients = [p.grad for p in parameters]
        norms = torch._foreach_norm(gradients)
        if beta2:
            norms = self._averaged(parameters, norms, beta2)
        torch._foreach_add_(norms, group["eps"])
        updates = torch._foreach_div(gradients, norms)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        for parameter in parameters:
            if "moment" not in self.state[parameter]:
                self.state[parameter]["moment"] = torch.zeros_like(parameter)
        moments = [self.state[p]["moment"] for p in parameters]
        torch._foreach_mul_(moments, beta1)
        torch._foreach_add_(moments, updates)
        torch._foreach_add_(parameters, moments, alpha=-group["lr"])

    def _averaged(self, parameters: list[Tensor], norms: list[Tensor], beta2: float) -> list[Tensor]:
        """Roots of the running means of the squared norms, which begin with the first."""
        means = []
        for parameter, norm in zip(parameters, norms, strict=True):
            state = self.state[parameter]
            if "square" in state:
                state["square"].lerp_(norm.square(), 1 - beta2)
            else:
                state["square"] = norm.square()
            means.append(state["square"].sqrt())
        return means
