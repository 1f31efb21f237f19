"""Steps of a policy within a trust region: TRPO, and CPO and PCPO with a direction of cost.

The step is found in the space of all weights of the policy, with the curvature of the divergence as
its metric: ``H x = g`` is solved by conjugate gradients, which need products with H only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ucpo.learners.actors import OnPolicyActor
from ucpo.learners.surrogates import Decisions

Product = Callable[[Tensor], Tensor]


class Shown(Protocol):
    """What a policy sees of decisions."""

    @property
    def obs(self) -> Tensor:
        """Observations, (batch, obs)."""

    @property
    def stock(self) -> Tensor:
        """Stocks, (batch, C)."""


@dataclass(frozen=True)
class TrustRegion:
    """One step of the policy for a whole rollout.

    Args:
        radius: Divergence a step may make.
        damping: Added to the curvature; more makes steps shorter and surer.
        iterations: Of conjugate gradients.
        tries: Of the line search, each 0.8 times as far as the one before.
        constrained: Whether the expected cost is a constraint of the step (CPO); its budget must
            be a single one.
        projected: Whether the constraint is kept by projecting TRPO's step instead (PCPO).
    """

    radius: float
    damping: float
    iterations: int
    tries: int
    constrained: bool
    projected: bool = False

    def improve(self, actor: OnPolicyActor, seen: Shown, old: Decisions) -> dict[str, Tensor]:
        """Take the step, or none where no try is better and near."""
        weights: list[Tensor] = list(actor.parameters())

        def output() -> Tensor:
            found: Tensor = self._output(actor, seen)
            return found

        def ratio() -> Tensor:
            return old.ratio(output(), actor.spread)

        def gain() -> Tensor:
            return (ratio() * old.advantage).mean()

        def cost() -> Tensor:
            return (ratio() * old.costs[:, 0]).mean()

        def moved() -> Tensor:
            return old.kind.divergence(old.output, old.spread, output(), actor.spread).mean()

        curved = flat(torch.autograd.grad(moved(), weights, create_graph=True))

        def product(vector: Tensor) -> Tensor:
            along = torch.autograd.grad((curved * vector).sum(), weights, retain_graph=True)
            return flat(along) + self.damping * vector

        uphill = flat(torch.autograd.grad(gain(), weights))
        if self.constrained:
            limit = float(old.excess[0]) / max(old.length, 1.0)  # per step, as the surrogate is
            dearer = flat(torch.autograd.grad(cost(), weights))
            within = pcpo_step if self.projected else cpo_step
            step = within(uphill, dearer, limit, product, self.radius, self.iterations)
        else:
            limit = -math.inf
            step = trpo_step(uphill, product, self.radius, self.iterations)
        before = torch.cat([weight.detach().reshape(-1) for weight in weights])
        with torch.no_grad():
            better = self._search(weights, before, step, gain, cost, moved, limit)
        return {"actor_loss": -better}

    def _output(self, actor: OnPolicyActor, seen: Shown) -> Tensor:
        """Outputs in plain operations, which can be differentiated twice."""
        body = actor.body
        stock = body.scaled(seen.stock)
        if body.embedding is not None:
            ((weight, bias),) = body.embedding.stack(body.embedding.flat[0])
            stock = torch.relu(stock @ weight + bias)
        hidden, layers = torch.cat([seen.obs, stock], dim=-1), body.layers
        if body.trunk is not None:
            hidden = body.trunk(hidden)[0]
        for i, (weight, bias) in enumerate(layers.stack(layers.flat[0])):
            hidden = torch.addmm(bias, hidden, weight)
            if i < layers.activated:
                hidden = hidden.relu() if layers.activation == "relu" else hidden.tanh()
        return hidden

    def _search(
        self,
        weights: list[Tensor],
        before: Tensor,
        step: Tensor,
        gain: Callable[[], Tensor],
        cost: Callable[[], Tensor],
        moved: Callable[[], Tensor],
        limit: float,
    ) -> Tensor:
        """The longest of some tries that keeps the divergence and, as far as can be, the limit."""
        at_first, dear_at_first = gain(), cost() if self.constrained else torch.zeros(())
        for attempt in range(self.tries):
            place(weights, before + 0.8**attempt * step)
            better = gain() - at_first
            near = moved() <= self.radius
            dearer = cost() - dear_at_first if self.constrained else torch.zeros(())
            # Within the limit the reward must not fall; beyond it only the cost must.
            fine = dearer <= max(-limit, 0.0) and (better >= 0.0 or limit > 0.0)
            if near and (fine if self.constrained else better > 0.0):
                return better
        place(weights, before)
        return torch.zeros(())


def flat(parts: tuple[Tensor, ...]) -> Tensor:
    """Gradients as one vector."""
    return torch.cat([part.reshape(-1) for part in parts])


def place(weights: list[Tensor], vector: Tensor) -> None:
    """Write a vector into the weights."""
    begin = 0
    for weight in weights:
        weight.copy_(vector[begin : begin + weight.numel()].view_as(weight))
        begin += weight.numel()


def conjugate_gradients(product: Product, right: Tensor, iterations: int) -> Tensor:
    """The x with ``H x = right``, nearly, for products with a positive definite H."""
    x, rest = torch.zeros_like(right), right.clone()
    along, size = rest.clone(), rest @ rest
    for _ in range(iterations):
        if size <= 1e-20:
            break
        bent = product(along)
        far = size / (along @ bent)
        x += far * along
        rest -= far * bent
        before, size = size, rest @ rest
        along = rest + size / before * along
    return x


def trpo_step(gradient: Tensor, product: Product, radius: float, iterations: int) -> Tensor:
    """The longest step along the natural gradient: ``sqrt(2 radius / q) H^-1 g``."""
    natural = conjugate_gradients(product, gradient, iterations)
    length = gradient @ natural
    if not length > 0.0:
        return torch.zeros_like(gradient)
    return torch.sqrt(2.0 * radius / length) * natural


def cpo_step(
    gradient: Tensor,
    cost_gradient: Tensor,
    excess: float,
    product: Product,
    radius: float,
    iterations: int,
) -> Tensor:
    """The best step that keeps a cost: max ``g x`` with ``c + b x <= 0`` and ``x H x <= 2 radius``.

    Achiam et al. (2017). Where no step within the radius keeps the cost, the one that lowers it
    most.

    Args:
        gradient: g, of the reward.
        cost_gradient: b, of the cost.
        excess: c, of the cost above its budget, in the same units as its gradient.
        product: With the curvature H.
        radius: Of the trust region, as a divergence.
        iterations: Of conjugate gradients.
    """
    if not cost_gradient @ cost_gradient > 1e-16:
        return trpo_step(gradient, product, radius, iterations)
    v = conjugate_gradients(product, gradient, iterations)
    w = conjugate_gradients(product, cost_gradient, iterations)
    q, r, s = float(gradient @ v), float(gradient @ w), float(cost_gradient @ w)
    A, B, c = max(q - r * r / s, 0.0), 2.0 * radius - excess * excess / s, excess
    if c < 0.0 and B < 0.0:  # the whole region keeps the cost
        return trpo_step(gradient, product, radius, iterations)
    if c > 0.0 and B < 0.0:  # none of it does: get out
        return -math.sqrt(2.0 * radius / s) * w
    tiny = 1e-12
    free, bound = math.sqrt(q / (2.0 * radius)), math.sqrt(A / max(B, tiny))
    # The cost's price is r + lambda c over s, where that is above 0; the dual is concave in lambda
    # on both sides, so the better of the two best ones is the best.
    turning = -r / c if abs(c) > tiny else (-math.inf if r > 0.0 else math.inf)
    if c > 0.0:
        bound, free = max(bound, turning), min(free, turning)
    elif c < 0.0:
        bound, free = min(bound, turning), max(free, turning)
    elif r > 0.0:
        free = 0.0
    else:
        bound = 0.0

    def priced(lam: float) -> float:
        return -0.5 * (A / max(lam, tiny) + B * lam) + r * c / s

    def unpriced(lam: float) -> float:
        return -0.5 * (q / max(lam, tiny) + 2.0 * radius * lam)

    use_price = bound > 0.0 and (free <= 0.0 or priced(bound) >= unpriced(free))
    lam = max(bound if use_price else free, tiny)
    price = max(0.0, (lam * c + r) / s) if use_price else 0.0
    return (v - price * w) / lam


def pcpo_step(
    gradient: Tensor,
    cost_gradient: Tensor,
    excess: float,
    product: Product,
    radius: float,
    iterations: int,
) -> Tensor:
    """TRPO's step, then the nearest one (in H) that keeps the cost (Yang et al., 2020).

    ``x = sqrt(2 radius / q) H^-1 g - max(0, (sqrt(2 radius / q) r + c) / s) H^-1 b``; arguments as
    of `cpo_step`.
    """
    step = trpo_step(gradient, product, radius, iterations)
    if not cost_gradient @ cost_gradient > 1e-16:
        return step
    w = conjugate_gradients(product, cost_gradient, iterations)
    beyond = (cost_gradient @ step + excess) / (cost_gradient @ w)
    return step - beyond.clamp(min=0.0) * w
