"""Reinforcement learning under budgets that are chosen after training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ucpo.envs.registration import register_all

if TYPE_CHECKING:
    from ucpo.envs.registry import make_task
    from ucpo.errors import UsageError
    from ucpo.policies.controller import Controller
    from ucpo.policies.policy import Policy, load
    from ucpo.problem import BudgetGrid, Constraint, Problem, Utility, register_utility
    from ucpo.runs.run import Run, train

    UCP = Run

# Where each public name lives; imported on first use, so that `import ucpo` need not wait for
# PyTorch.
_HOMES = {
    "Run": "ucpo.runs.run",
    "train": "ucpo.runs.run",
    "load": "ucpo.policies.policy",
    "Policy": "ucpo.policies.policy",
    "Controller": "ucpo.policies.controller",
    "make_task": "ucpo.envs.registry",
    "UsageError": "ucpo.errors",
    "BudgetGrid": "ucpo.problem",
    "Constraint": "ucpo.problem",
    "Problem": "ucpo.problem",
    "Utility": "ucpo.problem",
    "register_utility": "ucpo.problem",
}

__version__ = "0.1.0"
__all__ = [
    "UCP",
    "BudgetGrid",
    "Constraint",
    "Controller",
    "Policy",
    "Problem",
    "Run",
    "UsageError",
    "Utility",
    "load",
    "make_task",
    "register_utility",
    "train",
]

register_all()  # so that gymnasium.make("ucpo/SafetyPointGoal1-v0") works


def __getattr__(name: str) -> Any:
    if name == "UCP":  # the short way to the paper's agent, which is what runs are by default
        name = "Run"
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ucpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
