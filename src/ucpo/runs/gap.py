"""The ruler: what a trained agent is worth beside the exact optimum of a finite problem.

Nothing is sampled when measuring. The deterministic policy is followed through everything that may
happen, so return, cost and excess of an agent are exact and differ between trainings only.
Evaluations discount nothing, and neither does the ruler, whatever the agent's discount.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ucpo import stock as stocks
from ucpo.config.files import read_method, resolve
from ucpo.config.options import RunConfig
from ucpo.envs.finite import FiniteTask
from ucpo.envs.finite_problem import ENDED, FiniteProblem
from ucpo.envs.interface import Ints
from ucpo.envs.registry import TASKS, family_of, make_task, name_of
from ucpo.errors import UsageError, nearest
from ucpo.exact import Policy as ExactPolicy
from ucpo.exact import solve
from ucpo.problem import EXCESS, Constraint, Floats, Problem, Utility, utility

if TYPE_CHECKING:
    import polars as pl

    from ucpo.policies.policy import Policy
    from ucpo.runs.run import Run

MAX_STATES = 100_000  # states and stocks of an optimum; more would take minutes
_NEGLIGIBLE = 1e-12  # probability of what is not followed any further
_ROUNDING = 1e-6  # cost units by which a cost may exceed a budget through rounding

Choose = Callable[[Ints, Floats, int], Floats]
"""Chances of the problem's actions, (n, actions), in states (n,) with stocks (n,) at a time."""


@dataclass(frozen=True)
class Worth:
    """What a policy brings within one budget: expectations over all episodes, undiscounted."""

    value: float
    """Return."""
    cost: float
    """In cost units."""
    exceeded: float
    """P(cost > budget)."""
    excess: float
    """E[(cost - budget)_+], in cost units."""


def worth(
    problem: FiniteProblem,
    choose: Choose,
    budget: float,
    stock_discount: float = 1.0,
    longest: int = 1000,
) -> Worth:
    """Follow a policy through everything that may happen.

    Args:
        problem: With one cost.
        choose: The policy. The stock it is shown is the agent's: inflated where discounted.
        budget: In cost units.
        stock_discount: See `ucpo.stock.advance`.
        longest: Steps after which episodes of a problem without a horizon are cut off.
    """
    table = problem.table
    first = table.first_branch[table.first_pair]  # branches of a state are neighbours
    action = np.repeat(table.action, np.diff(table.first_branch))  # (B,)
    units = np.round(table.costs[:, 0] / problem.cost_unit)
    # What may be the case: one row each of state, cost so far and stock, and how likely it is.
    states: Ints = np.flatnonzero(problem.start)
    mass: Floats = np.asarray(problem.start, np.float64)[states]
    spent: Floats = np.zeros(len(states))
    stock: Floats = np.full(len(states), stocks.initial(budget)[0])
    ended: list[tuple[Floats, Floats]] = []
    value = 0.0
    for time in range(problem.horizon or longest):
        if mass.sum() < _NEGLIGIBLE:
            break
        chances = choose(states, stock, time)
        row = np.repeat(np.arange(len(states)), first[states + 1] - first[states])
        branch = np.concatenate([np.arange(*first[state : state + 2]) for state in states])
        likely = mass[row] * chances[row, action[branch]] * table.probability[branch]
        row, branch, likely = (each[likely > 0.0] for each in (row, branch, likely))
        value += float(likely @ table.reward[branch])
        costs = table.costs[branch, 0].astype(np.float32)
        left = stocks.advance(stock[row], costs, stock_discount)
        after = np.column_stack([table.successor[branch], spent[row] + units[branch], left])
        over = table.successor[branch] == ENDED
        ended.append((likely[over], after[over, 1]))
        rows, place = np.unique(after[~over], axis=0, return_inverse=True)
        mass = np.bincount(place.reshape(-1), likely[~over], len(rows)).astype(np.float64)
        states, spent, stock = rows[:, 0].astype(np.int64), rows[:, 1], rows[:, 2].astype("f4")
    ended.append((mass, spent))
    probability, total = (np.concatenate(part) for part in zip(*ended, strict=True))
    total = total * problem.cost_unit
    return Worth(
        value=value,
        cost=float(probability @ total),
        exceeded=float(probability[total > budget + _ROUNDING].sum()),
        excess=float(probability @ EXCESS(total - budget)),
    )


def acting(policy: Policy, task: FiniteTask) -> Choose:
    """A trained policy, deterministic, as it chooses in a task."""

    def choose(states: Ints, stock: Floats, time: int) -> Floats:
        obs = task.observe(states, np.full(len(states), time))
        pairs = task.pairs(states, policy.act(obs, stock[:, None]))
        chances: Floats = np.eye(task.problem.actions)[task.problem.table.action[pairs]]
        return chances

    return choose


def solved(policy: ExactPolicy) -> Choose:
    """An exact policy; the optimum of a mean constraint may have to roll dice."""

    def choose(states: Ints, stock: Floats, time: int) -> Floats:
        pairs = zip(states.tolist(), stock.tolist(), strict=True)
        return np.array([policy(state, left, time) for state, left in pairs])

    return choose


def best(
    problem: FiniteProblem,
    budget: float,
    limit: Utility = EXCESS,
    gamma: float = 1.0,
    stock_discount: float = 1.0,
) -> Worth:
    """What the exact optimum within a budget brings, undiscounted whatever it was solved for.

    Args:
        problem: With one cost.
        budget: In cost units.
        limit: The utility that is constrained to 0.
        gamma: Discount of the reward the optimum is for.
        stock_discount: Of the stock likewise.
    """
    choose = _optimal(problem, budget, limit, gamma, stock_discount)
    return worth(problem, choose, budget, stock_discount)


def losses(problem: FiniteProblem, choose: Choose, budget: float) -> Floats:
    """Return that each step of a policy loses, (horizon,); they add up to the whole gap.

    The policy acts up to a step, the optimum afterwards; the difference to acting one step longer
    is what that step loses. Meant for policies that keep the budget: what is optimal once it is
    exceeded is not defined.
    """
    if problem.horizon is None:
        raise UsageError(f"{problem.name}: losses by step need a horizon")
    optimal = _optimal(problem, budget)

    def until(last: int) -> Choose:
        return lambda states, stock, time: (choose if time < last else optimal)(states, stock, time)

    values = [worth(problem, until(last), budget).value for last in range(problem.horizon + 1)]
    return -np.diff(values)


def _optimal(
    problem: FiniteProblem,
    budget: float,
    limit: Utility = EXCESS,
    gamma: float = 1.0,
    stock_discount: float = 1.0,
) -> Choose:
    constrained = Problem((Constraint(problem.cost_names[0], limit, tolerance=0.0),))
    discounted = dataclasses.replace(problem, gamma=gamma)
    (solution,) = solve(discounted, constrained, [-budget], stock_discount, MAX_STATES)
    return solved(solution.policy)


def read_problem(text: str) -> str | FiniteProblem:
    """Read the name of a task made from a finite problem, or ``module:name`` of one's own problem.

    Args:
        text: The name may be that of a problem or of a function without arguments that makes one.
    """
    finite = [name for name, entry in TASKS.items() if entry.family == "finite"]
    if text in finite:
        return text
    module, colon, name = text.partition(":")
    if not colon:
        raise UsageError(
            f"no finite problem {text!r}; {nearest(text, finite)} A problem of your own is named "
            "with its module, my_module:my_problem"
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"cannot find {text!r} ({error}); write module:name, and say where the module is with "
            "PYTHONPATH=FOLDER"
        ) from None
    made = found() if callable(found) else found
    if not isinstance(made, FiniteProblem):
        raise UsageError(f"{text} is a {type(made).__name__}, not a ucpo.exact.FiniteProblem")
    return made


def measure_gap(
    task: str | FiniteProblem,
    *,
    methods: Sequence[str] = ("ucp",),
    seeds: Sequence[int] = (0,),
    budgets: Sequence[float] = (),
    folder: Path | None = None,
    show: bool = True,
    **options: Any,
) -> pl.DataFrame:
    """Train on a finite problem and set what was learned beside the exact optimum.

    Methods for a single budget are trained anew for each budget. Whatever cannot work is refused
    before the first training.

    Args:
        task: Name of a task made from a finite problem, ``module:name`` of a problem of one's own
            (or of a function that makes it), or a finite problem; with one cost.
        methods: What to train with.
        seeds: One training each.
        budgets: In cost units; by default four across the range trained for.
        folder: Where to keep the runs, must be new; by default they are not kept.
        show: Show the progress of trainings on the terminal.
        options: Of `ucpo.Run`.

    Returns:
        One row per method, seed and budget: ``optimum`` and ``optimum_cost``, the best return
        without ever exceeding the budget and what it costs; the agent's ``return``, ``cost``,
        ``exceeded`` and ``excess`` (see `Worth`); ``own_return`` and ``own_excess`` of the exact
        optimum for the method's own utility and discounts.
    """
    import polars as pl

    from ucpo.runs.run import Run

    task = read_problem(task) if isinstance(task, str) else task
    ruler = _ruler(task, folder)
    if not (methods and seeds):
        raise UsageError("nothing to train: give at least one method and one seed")
    trainings = [
        training
        for method in methods
        for seed in seeds
        for training in _trainings(
            task, ruler, budgets, {**options, "method": method, "seed": seed}
        )
    ]
    optima, own = _optima(ruler.problem, trainings)
    rows = []
    for training in trainings:
        agent = Run(task, **training.options)
        agent.learn(run=folder / training.config.name if folder else None, show=show)
        policy = agent.policy()
        for budget in training.budgets:
            seen = worth(ruler.problem, acting(policy, ruler), budget, policy.info.stock_discount)
            compared = (optima[budget], own[training.own, budget])
            rows.append(_row(agent, ruler.spec.name, budget, seen, *compared))
        if agent.interrupted:
            break
    return pl.DataFrame(rows)


def _ruler(task: str | FiniteProblem, folder: Path | None) -> FiniteTask:
    """The task to measure with, if it can be done."""
    ruler = make_task(task, 1)
    assert isinstance(ruler, FiniteTask)
    if folder is not None and folder.exists():
        raise UsageError(f"{folder} exists already; nothing was changed. Choose a new folder")
    names = ruler.problem.cost_names
    if len(names) > 1:
        raise UsageError(
            f"the gap is measured with one cost; {ruler.spec.name} has {', '.join(names)}"
        )
    return ruler


def _optima(
    problem: FiniteProblem, trainings: Sequence[_Training]
) -> tuple[dict[float, Worth], dict[Any, Worth]]:
    """The optimum within each budget, and that of what each training is asked for."""
    optimum = cache(partial(best, problem))  # the same for every seed
    measurements = [(one, budget) for one in trainings for budget in one.budgets]
    within = {budget: optimum(budget) for _, budget in measurements}
    own = {
        (one.own, budget): _unless_too_large(optimum, budget, *one.own)
        for one, budget in measurements
    }
    return within, own


def _row(
    run: Run, task: str, budget: float, seen: Worth, optimum: Worth, own: Worth
) -> dict[str, Any]:
    """What was learned, beside the optimum within the budget and that of what was asked for."""
    return {
        "task": task,
        "method": run.config.method,
        "seed": run.config.seed,
        "levels": run.grid.levels[0],
        "gamma": run.config.gamma,
        "env_steps": run.learner.env_steps,
        "budget": budget,
        "optimum": optimum.value,
        "optimum_cost": optimum.cost,
        "return": seen.value,
        "cost": seen.cost,
        "exceeded": seen.exceeded,
        "excess": seen.excess,
        "own_return": own.value,
        "own_excess": own.excess,
    }


@dataclass(frozen=True)
class _Training:
    """One agent to train, and the budgets to measure it at."""

    options: dict[str, Any]  # of `ucpo.Run`
    config: RunConfig  # what they come to
    budgets: tuple[float, ...]

    @property
    def own(self) -> tuple[Utility, float, float]:
        """The utility, the discount and the stock's discount of the problem it is meant for."""
        return utility(self.config.utility), self.config.gamma, self.config.stock_discount


def _trainings(
    task: str | FiniteProblem, ruler: FiniteTask, budgets: Sequence[float], options: dict[str, Any]
) -> list[_Training]:
    """The agents of one method and seed: one for all budgets, or one for each."""
    from ucpo.config.assembly import make_grid

    configure = partial(resolve, name_of(task), family=family_of(task))
    # The range trained for does not depend on where episodes start.
    grid = make_grid(configure(**{**options, "starts": "grid"}), ruler.spec)
    chosen = tuple(budgets) or tuple(np.linspace(grid.low[0], grid.high[0], 4).tolist())
    _, composition = read_method(options["method"])
    if composition.get("starts") == "single":
        each = [({**options, "budget": f"{budget:g}"}, (budget,)) for budget in chosen]
        return [_Training(one, configure(**one), level) for one, level in each]
    outside = [budget for budget in chosen if not grid.covers([budget])]
    if outside:
        raise UsageError(
            f"budget {outside[0]:g} is outside the range trained for ({grid.low[0]:g} to "
            f"{grid.high[0]:g}); choose one inside, or another --budget-range"
        )
    return [_Training(options, configure(**options), chosen)]


def _unless_too_large(optimum: Callable[..., Worth], *settings: Any) -> Worth:
    """What an optimum brings, or nothing known: a discounted stock may have too many values."""
    try:
        return optimum(*settings)
    except UsageError:
        return Worth(*(float("nan"),) * 4)
