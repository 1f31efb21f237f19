"""Quantile regression between two sets of quantiles, exact, without the N x N pairs in memory.

The loss is the mean over all pairs of a predicted quantile and a target of
``rho_tau(d) = |d| |tau - 1{d < 0}|`` with ``d = target - prediction``. Its gradient with respect to
a prediction only asks how many targets lie below and above it, and the loss what they add up to.
How they are counted is in `ucpo.learners.compiled.counting`.
"""

from __future__ import annotations

from torch import Tensor

from ucpo.learners.compiled.counting import QuantileLoss, levels

__all__ = ["levels", "quantile_loss"]


def quantile_loss(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Mean over pairs and batch of the quantile-regression loss, for each critic apart.

    Args:
        quantiles: Predictions at `levels(N)`, shape (critics, batch, N).
        targets: Equally likely samples of what they should predict, shape (critics, batch, M);
            constants here.

    Returns:
        Loss of each critic, shape (critics,).
    """
    loss: Tensor = QuantileLoss.apply(quantiles, targets.detach())  # type: ignore[no-untyped-call]
    return loss
