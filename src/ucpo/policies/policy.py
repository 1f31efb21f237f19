"""A trained policy: one self-contained file, from which nothing is executed."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ucpo.envs.interface import TaskSpec
from ucpo.errors import UsageError, shell
from ucpo.learners.actors import ChoiceActor, GaussianActor, OnPolicyActor
from ucpo.learners.networks import Activation, Actor, Body, Critics, Hidden, StockScale
from ucpo.learners.trunk import MakeTrunk
from ucpo.policies import places, weights
from ucpo.policies.fields import FITS
from ucpo.problem import BudgetGrid, Floats, parse_budgets
from ucpo.storage.names import POLICY_FILE

if TYPE_CHECKING:
    from ucpo.policies.controller import Controller


@dataclass(frozen=True, kw_only=True)
class PolicyInfo:
    """What a policy file says beside the weights; enough to rebuild the network and use it."""

    task: str
    method: str
    training_seed: int
    env_steps: int
    updates: int
    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    cost_names: tuple[str, ...]
    budget_low: tuple[float, ...]
    budget_high: tuple[float, ...]
    stock_discount: float
    hidden: tuple[int, ...]
    stock_size: int
    stock_scale: StockScale
    stock_features: int
    network: str | None = None
    """What made the networks instead of hidden layers, where that was the user's own function."""
    gamma: float | None = None
    """Discount of the sums the critics predict; None in files that do not say it."""
    cost_gamma: float | None = None
    """That of costs, where it is another one."""
    hold: int | None = None
    """Environment steps each decision was kept for in training, where that was more than one."""
    activation: str | None = None
    """Between layers: ``tanh``, or ReLU where it is not said."""
    action: str | None = None
    """How outputs become an action: of a Gaussian with free deviations means are ``clipped`` or
    ``squashed``; the largest of them is the ``choice``, whose bounds are the first and the last
    of the choices. Where it is not said, deviations are outputs too, and tanh makes the action."""
    stock_ceiling: float | None = None
    """Stocks above look like this one, in cost units."""

    def __post_init__(self) -> None:
        """Refuse what no training writes; files may be untrusted."""
        for field in dataclasses.fields(self):
            FITS[str(field.type)](getattr(self, field.name), field.name)
        costs, actions = len(self.cost_names), len(self.action_low)
        for fits, what in (
            (1 <= actions == len(self.action_high), "bounds of actions"),
            (all(low < high for low, high in self._pairs("action")), "bounds of actions"),
            (1 <= costs == len(set(self.cost_names)), "names of costs"),
            (costs == len(self.budget_low) == len(self.budget_high), "budgets for each cost"),
            (all(0 <= low <= high for low, high in self._pairs("budget")), "budgets"),
            (0.0 < self.stock_discount <= 1.0, "discount of the stock"),
            (self.stock_size in (0, costs), "size of the stock"),
            (all(each > 0.0 for each in self.scales), "scale of the stock"),
            (len(self.scales) in (1, costs), "scale of the stock"),
            (self.observation_size >= 1 and all(self.hidden), "sizes of layers"),
            (self.activation in (None, "relu", "tanh"), "activations"),
            (self.action in (None, "clipped", "squashed", "choice"), "actions"),
            (not self.chooses or self._numbered(), "choices"),
            (self.action or not self.activation, "activations"),
        ):
            if not fits:
                raise ValueError(f"it has impossible {what}")

    @property
    def scales(self) -> tuple[float, ...]:
        """Cost units that count as one for the network: one for all costs, or one for each."""
        return self.stock_scale if isinstance(self.stock_scale, tuple) else (self.stock_scale,)

    @property
    def chooses(self) -> bool:
        """Whether an action is one of several choices; there is then a number for each."""
        return self.action == "choice"

    def _numbered(self) -> bool:
        """Whether bounds are those of choices, numbered from the first to the last."""
        count, first, last = len(self.action_low), self.action_low[0], self.action_high[0]
        bounds = self._pairs("action")
        return bounds == [(first, last)] * count and first % 1 == 0 and last - first == count - 1

    def _pairs(self, what: str) -> list[tuple[float, float]]:
        low, high = getattr(self, f"{what}_low"), getattr(self, f"{what}_high")
        return list(zip(low, high, strict=True))

    @property
    def gammas(self) -> tuple[float, ...] | None:
        """Discounts of the reward and of each cost; None where they are not known."""
        if self.gamma is None:
            return None
        of_costs = self.gamma if self.cost_gamma is None else self.cost_gamma
        return self.gamma, *[of_costs] * len(self.cost_names)

    def weights(self) -> int:
        """How many numbers the network has."""
        embedded = self.stock_features if self.stock_size else 0
        wide = embedded or self.stock_size
        actions = len(self.action_low)
        outputs = 2 * actions if self.action is None else actions
        free = actions if self.action in ("clipped", "squashed") else 0
        sizes = [self.observation_size + wide, *self.hidden, outputs]
        layers = [(self.stock_size, embedded)] if embedded else []
        return free + sum((i + 1) * o for i, o in [*layers, *pairwise(sizes)])

    def covers(self, budgets: Sequence[float]) -> bool:
        """Whether budgets, one per cost, lie in the range trained for."""
        levels = tuple(
            1 + (low < high) for low, high in zip(self.budget_low, self.budget_high, strict=True)
        )
        return BudgetGrid(self.budget_low, self.budget_high, levels).covers(budgets)

    def read_budget(self, text: str) -> list[float]:
        """Read ``5`` or ``hazards=5,vases=2``: a budget for each cost."""
        pairs = parse_budgets(text.split(","), self.cost_names)
        if any(low != high for low, high in pairs):
            raise UsageError(f"a budget is one number, got {text!r}")
        return [low for low, _ in pairs]

    def usual_budgets(self) -> list[list[float]]:
        """The paper's 0, 5, 15 and 25 where trained for, otherwise four across the range."""
        paper = [[budget] * len(self.cost_names) for budget in (0.0, 5.0, 15.0, 25.0)]
        if all(self.covers(budgets) for budgets in paper):
            return paper
        across = np.linspace(self.budget_low, self.budget_high, 4)
        return [list(map(float, budgets)) for budgets in np.unique(across, axis=0)]


def make_actor(
    spec: TaskSpec | PolicyInfo,
    hidden: Hidden,
    stock_size: int,
    stock_scale: StockScale,
    stock_features: int,
    generator: torch.Generator,
    stock_ceiling: float | None = None,
) -> Actor:
    """An actor of the shape a task and a configuration ask for."""
    outputs = 2 * len(spec.action_low)  # a mean and a deviation each
    body = Body(
        members=1,
        inputs=spec.observation_size,
        stock_size=stock_size,
        hidden=hidden,
        outputs=outputs,
        stock_scale=stock_scale,
        stock_features=stock_features,
        generator=generator,
        stock_ceiling=stock_ceiling,
    )
    return Actor(body)


def make_on_policy_actor(
    spec: TaskSpec | PolicyInfo,
    hidden: Hidden,
    stock_size: int,
    stock_scale: StockScale,
    stock_features: int,
    generator: torch.Generator,
    *,
    activation: Activation,
    action: str | None,
    stock_ceiling: float | None = None,
    log_std: float = 0.0,
) -> OnPolicyActor:
    """An actor whose deviations do not depend on what it sees, or that chooses.

    Further arguments are those of `Body` and of the actors; `action` as in `PolicyInfo`, or
    ``unclipped`` where the task is to clip samples.
    """
    body = Body(
        members=1,
        inputs=spec.observation_size,
        stock_size=stock_size,
        hidden=hidden,
        outputs=len(spec.action_low),
        stock_scale=stock_scale,
        stock_features=stock_features,
        generator=generator,
        activation=activation,
        stock_ceiling=stock_ceiling,
    )
    if action == "choice":
        return ChoiceActor(body)
    return GaussianActor(body, action == "squashed", log_std, wild=action == "unclipped")


def hidden_of(info: PolicyInfo, network: MakeTrunk | None) -> Hidden:
    """What is between inputs and last layer; a file alone must not decide what is imported."""
    if info.network is None:
        return info.hidden
    if network is None:
        raise UsageError(
            f"the networks of this policy are made by {info.network}, which a policy file alone "
            "must not import; give that function: load(path, network=...), or on the command "
            f"line --network {shell(info.network)}"
        )
    return network


def _actor_of(info: PolicyInfo, hidden: Hidden) -> Actor | OnPolicyActor:
    """An actor of the shape a policy file says."""
    shape = (hidden, info.stock_size, info.stock_scale, info.stock_features)
    if info.action is None:
        return make_actor(info, *shape, torch.Generator(), info.stock_ceiling)
    return make_on_policy_actor(
        info,
        *shape,
        torch.Generator(),
        activation="tanh" if info.activation == "tanh" else "relu",
        action=info.action,
        stock_ceiling=info.stock_ceiling,
    )


class Policy:
    """A trained actor and what it was trained for.

    Args:
        actor: From observations and stocks to actions.
        info: What it was trained for.
        critics: What judged it in training, where it comes straight from there.
        file: Where it was loaded from; critics may lie beside it.
        network: What made its networks, where that was the user's own function.
    """

    def __init__(
        self,
        actor: Actor | OnPolicyActor,
        info: PolicyInfo,
        critics: Critics | None = None,
        file: Path | None = None,
        network: MakeTrunk | None = None,
    ) -> None:
        self.actor, self.info, self.critics = actor, info, critics
        self.file, self.network = file, network

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Deterministic actions in [-1, 1], (n, action), for (n, obs) and stocks (n, C)."""
        actions: Floats = self.actor.mode(
            torch.as_tensor(obs, dtype=torch.float32), torch.as_tensor(stock, dtype=torch.float32)
        ).numpy()
        return actions

    def budgets(self, budget: float | Sequence[float], extrapolate: bool = False) -> list[float]:
        """One budget per cost, checked against the range trained for.

        A single number serves every cost. Budgets outside the range are refused, or with
        `extrapolate` warned about.
        """
        names = self.info.cost_names
        given = [float(budget)] * len(names) if np.isscalar(budget) else [float(b) for b in budget]  # type: ignore[arg-type, union-attr]
        if len(given) != len(names):
            raise UsageError(f"give one budget, or one for each of {', '.join(names)}; got {given}")
        if not self.info.covers(given):
            ranges = ", ".join(
                f"{name} {low:g} to {high:g}"
                for name, low, high in zip(
                    names, self.info.budget_low, self.info.budget_high, strict=True
                )
            )
            wanted = ", ".join(f"{b:g}" for b in given)
            text = f"budget {wanted} is outside the range trained for ({ranges})"
            if not extrapolate:
                raise UsageError(f"{text}; choose one inside, or allow it with extrapolate")
            warnings.warn(f"{text}: nothing was learned about it", stacklevel=3)
        return given

    def must_fit(self, spec: TaskSpec) -> None:
        """Refuse a task whose observations or actions are not those trained with."""
        info, actions = self.info, len(self.info.action_low)
        trained = (info.observation_size, actions, info.chooses)
        if (spec.observation_size, spec.action_size, spec.discrete) != trained:
            kinds = {True: "choices", False: "actions"}
            raise UsageError(
                f"the policy was trained on {info.task} (observations {info.observation_size}, "
                f"{kinds[info.chooses]} {actions}) and does not fit {spec.name} "
                f"(observations {spec.observation_size}, {kinds[spec.discrete]} {spec.action_size})"
            )

    def controller(
        self, budget: float | Sequence[float], *, hold: int = 1, extrapolate: bool = False
    ) -> Controller:
        """Act under a budget (cost units; one number, or one per cost), step by step.

        Args:
            budget: What an episode may cost.
            hold: Steps each action is kept for; 1 decides at every step. ``info.hold`` says what
                the policy was trained with (None: 1).
            extrapolate: Allow a budget outside the range trained for, with a warning.
        """
        from ucpo.policies.controller import Controller

        return Controller(self, self.budgets(budget, extrapolate), hold, extrapolate)

    def save(self, path: str | Path) -> None:
        """Write one self-contained file; an earlier one survives until the new one is whole."""
        weights.write(self.actor, dataclasses.asdict(self.info), Path(path))


def check_hold(hold: int) -> None:
    """Refuse to keep actions for less than a step."""
    if hold < 1:
        raise UsageError(f"hold must be at least 1 step, got {hold}")


def load(path: str | Path, *, network: MakeTrunk | None = None) -> Policy:
    """Load a policy from a run folder, a policy file, the zoo or the hub.

    The last two are written ``zoo:SafetyPointCircle1-v0`` and ``hf:user/name``.

    Nothing in the file is executed, and nothing is allocated that is larger than the file.

    Args:
        path: Where it is.
        network: What made its networks, where that was a function of your own.
    """
    path = places.locate(path)
    file = path / POLICY_FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"there is no policy at {path}; give a run folder that contains {POLICY_FILE}, "
            "or such a file"
        )
    with weights.reading(file, "a policy") as stored:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.about.items()
        }
        info = PolicyInfo(**fields)
        hidden = hidden_of(info, network)
        if not callable(hidden):
            stored.must_hold(info.weights())
        actor = _actor_of(info, hidden)
        stored.fill(actor, info.observation_size)
    return Policy(actor.requires_grad_(False), info, file=file, network=network)
