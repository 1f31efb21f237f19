"""What can be chosen about prices, about what a method changes of a task, and about budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ucpo.config.checks import require, within


@dataclass(frozen=True, kw_only=True)
class MultiplierConfig:
    """How the prices of exceeding a budget move."""

    kind: Literal["fixed", "gradient", "softplus", "clamped", "pid", "switch"] = "gradient"
    """How prices move: not at all, by gradient ascent (paper), by Adam behind a softplus (released
    code), by Adam clamped at the minimum (OmniSafe), or, for one budget, by a PID controller or a
    switch between reward and cost (CRPO)."""
    initial: float = 1.0
    """First value."""
    rate: float = 5e-5
    """Step size. Prices should move slower than the actor follows them."""
    gains: tuple[float, ...] = (0.1, 0.01, 0.01)
    """Of the PID controller: proportional, integral, derivative."""
    minimum: float = 1e-3
    """Lower bound."""
    maximum: float = float("inf")
    """Upper bound."""
    window: int = 8
    """Finished episodes an update averages over, the latest ones; 0: those since the last update,
    each of them once, which move the price of their own budget only."""
    own: str = ""
    """my_module:MyPrice instead of a kind: a class that answers ucpo.learners.interface.Multiplier,
    called with the problem and the grid of budgets."""
    slack: float = 0.0
    """Of the switch: mean cost above the budget that is let pass."""
    start: int = 50_000
    """Environment steps before the prices begin to move."""

    def __post_init__(self) -> None:
        averages = self.kind in ("pid", "switch")
        within("multiplier.window", self.window, 1 if averages else 0, 10**6)
        within("multiplier.slack", self.slack, 0.0, 1e9)
        require(
            len(self.gains) == 3 and all(0.0 <= gain < math.inf for gain in self.gains),
            f"multiplier.gains are three numbers of at least 0, got {self.gains}",
        )
        within("multiplier.rate", self.rate, 0.0, 1e9)
        within("multiplier.start", self.start, 0, 10**15)
        require(
            0.0 <= self.minimum <= self.initial <= self.maximum and self.initial < math.inf,
            f"multipliers need 0 <= minimum <= initial <= maximum, got minimum {self.minimum}, "
            f"initial {self.initial}, maximum {self.maximum}",
        )


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Which of its budgets a training episode begins with."""

    kind: Literal["uniform", "simmer"] = "uniform"
    """Any of them, one as often as another; or, of one budget, less while episodes exceed it."""
    own: str = ""
    """my_module:MySchedule instead: a class that answers ucpo.learners.interface.Schedule, called
    with the grid of budgets."""
    gains: tuple[float, ...] = (1.0, 1e-3, 0.01)
    """Of Simmer: proportional, integral, and against wind-up."""
    smoothing: float = 0.995
    """Of Simmer: share of the old error in the new one, per episode. More moves slower."""
    reach: float = 1.0
    """Of Simmer: cost units by which the training budget may be below the budget."""

    def __post_init__(self) -> None:
        require(
            len(self.gains) == 3 and all(0.0 <= gain < math.inf for gain in self.gains),
            f"schedule.gains are three numbers of at least 0, got {self.gains}",
        )
        within("schedule.smoothing", self.smoothing, 0.0, 1.0)
        within("schedule.reach", self.reach, 0.0, 1e9)


@dataclass(frozen=True, kw_only=True)
class ShapingConfig:
    """What a method changes about a task; returns in metrics and reports stay the task's own."""

    kind: Literal["none", "saute", "penalty", "early-termination"] = "none"
    """Nothing; a fixed penalty instead of the reward while a budget is exceeded (Saute); a priced
    one for what each step adds to a utility of the stock; or episodes that end once exceeded."""
    penalty: float = 1.0
    """Of Saute, in units of reward per decision. More keeps the agent further from its budget."""
    price: float = 1.0
    """Of the priced penalty, in units of reward per cost unit."""
    utility: Literal["excess", "all-or-nothing"] = "excess"
    """What the priced penalty charges: the excess, or once exceeded everything (Jiang)."""

    def __post_init__(self) -> None:
        within("shaping.penalty", self.penalty, -1e9, 1e9)
        within("shaping.price", self.price, 0.0, 1e9)
