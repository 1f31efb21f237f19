"""Appendix B of the paper, and a crossing: keeping a budget on average is not keeping it.

Everything here is computed exactly; nothing is sampled or trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ucpo.errors import UsageError
from ucpo.exact import Episode, FiniteProblem, Solution, episodes, solve, visits
from ucpo.exact.problems import CROSSING, MOVES, STAY, crossing, two_actions, walkable
from ucpo.problem import EXCESS, MEAN, Constraint, Floats, Problem, Utility

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAMMAS = (0.5, 0.9, 0.99)
BUDGETS = (0.5, 1.0, 1.5, 2.0, 3.0)
CROSSING_BUDGET = 2.0
CROSSING_BUDGETS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 51.0, 100.0)

_STYLES = {
    MEAN: ("#c44e52", "CMDP: within budget on average"),
    EXCESS: ("#4c72b0", "UCMDP: within budget always"),
}


@dataclass(frozen=True)
class Row:
    """One optimum: what it does at the start, and what its episodes are like."""

    problem: str
    gamma: float
    budget: float
    constraint: str
    """Name of the utility whose mean may not exceed 0."""
    first_action: float
    """Chance that the first action is to stay (two actions) or to step on the bridge (crossing)."""
    value: float
    price: float
    cost: float
    over_budget: float
    """Probability that an episode costs more than the budget."""
    excess: float
    """Expected cost above the budget."""
    rare_cost: float
    """Exceeded by one episode in a thousand at most."""


def illustrate(
    folder: Path, gammas: Sequence[float] = GAMMAS, budgets: Sequence[float] = BUDGETS
) -> list[Row]:
    """Solve both problems under both constraints, draw them, and return a table.

    Args:
        folder: Where ``two-actions`` and ``crossing`` go, as PNG and SVG; made if missing.
        gammas: Discounts of the two-action problem, each in (0, 1).
        budgets: Its budgets. The crossing has its own, `CROSSING_BUDGETS`.

    Returns:
        One row per problem, discount, budget and constraint.
    """
    for gamma in gammas:
        if not 0.0 < gamma < 1.0:
            raise UsageError(f"gamma must be in (0, 1) here, got {gamma}: staying would never end")
    folder.mkdir(parents=True, exist_ok=True)
    _save(_draw_two_actions(gammas), folder / "two-actions")
    _save(_draw_crossing(), folder / "crossing")
    return [
        two_actions_row(gamma, budget, utility)
        for gamma in gammas
        for budget in budgets
        for utility in _STYLES
    ] + [crossing_row(budget, utility) for budget in CROSSING_BUDGETS for utility in _STYLES]


def two_actions_row(gamma: float, budget: float, utility: Utility) -> Row:
    """The optimum of appendix B; stock and reward are discounted alike."""
    return _row(_best(two_actions(gamma), budget, utility, gamma), utility, STAY)


def crossing_row(budget: float, utility: Utility) -> Row:
    """The optimum of the crossing."""
    return _row(_best_crossing(budget, utility), utility, list(MOVES).index("right"))


def _best(finite: FiniteProblem, budget: float, utility: Utility, discount: float) -> Solution:
    problem = Problem((Constraint("cost", utility, tolerance=0.0),))
    return solve(finite, problem, [-budget], discount)[0]


@cache
def _best_crossing(budget: float, utility: Utility) -> Solution:
    return _best(crossing(), budget, utility, 1.0)


def _row(solution: Solution, utility: Utility, first_action: int) -> Row:
    finite = solution.policy.augmented.finite
    budget = -float(solution.initial_stock[0])
    probability, _, cost = _distribution(episodes(solution))
    start = int(np.argmax(finite.start))
    within = np.cumsum(probability) >= 1.0 - 1e-3  # sorted by cost
    return Row(
        problem=finite.name,
        gamma=finite.gamma,
        budget=budget,
        constraint=utility.name,
        first_action=float(solution.policy(start, -budget)[first_action]),
        value=solution.value,
        price=float(solution.prices[0]),
        cost=float(probability @ cost),
        over_budget=float(probability[cost > budget + 1e-9].sum()),
        excess=float(probability @ np.maximum(cost - budget, 0.0)),
        rare_cost=float(cost[np.argmax(within)]),
    )


def _distribution(ways: Sequence[Episode]) -> tuple[Floats, Floats, Floats]:
    """Probability, return and cost of each way an episode may go."""
    table = np.array([(way.probability, way.total, way.costs[0]) for way in ways])
    return table[:, 0], table[:, 1], table[:, 2]


def _draw_two_actions(gammas: Sequence[float]) -> Figure:
    figure, axes = _figure((3.0 * (len(gammas) + 1), 3.2), 1, len(gammas) + 1)
    returns, chance = axes[0, :-1], axes[0, -1]
    for axis, gamma in zip(returns, gammas, strict=True):
        for utility, (colour, label) in _STYLES.items():
            probability, total, _ = _distribution(
                episodes(_best(two_actions(gamma), 1.0, utility, gamma))
            )
            shown = probability > 1e-4
            axis.vlines(total[shown], 0.0, probability[shown], colour, lw=3, alpha=0.8)
            axis.plot(total[shown], probability[shown], "o", color=colour, ms=5, label=label)
        axis.axvline(1.0, color="0.3", lw=1, ls=":")
        axis.set(
            xlabel="return of an episode", title=f"$\\gamma$ = {gamma:g}, budget 1", ylim=(0, 1.08)
        )
    returns[0].set_ylabel("probability")
    figure.legend(*returns[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    _draw_staying(chance, gammas[len(gammas) // 2])
    return figure


def _draw_staying(axis: Axes, gamma: float) -> None:
    budgets = np.linspace(0.0, 3.0, 61)
    for utility, (colour, _) in _STYLES.items():
        best = [_best(two_actions(gamma), budget, utility, gamma) for budget in budgets]
        stays = [each.policy(0, each.initial_stock)[STAY] for each in best]
        axis.plot(-budgets, stays, ".", color=colour, ms=4)
    axis.set(
        xlabel="initial stock $z$",
        ylabel="chance of staying at first",
        title=f"$\\gamma$ = {gamma:g}, all budgets",
        ylim=(-0.05, 1.08),
    )


def _draw_crossing() -> Figure:
    figure, axes = _figure((9.0, 4.6), 2, 2, height_ratios=(1.0, 2.0))
    for axis, utility in zip(axes[0], _STYLES, strict=True):
        _draw_map(axis, utility)
    costs, trade = axes[1]
    for offset, (utility, (colour, label)) in zip((-0.2, 0.2), _STYLES.items(), strict=True):
        probability, _, cost = _distribution(episodes(_best_crossing(CROSSING_BUDGET, utility)))
        shown = [probability[np.round(cost) == level].sum() for level in (0, 1, 2, 3)]
        shown.append(probability[cost >= 50.0].sum())
        costs.bar(np.arange(5) + offset, shown, 0.4, color=colour)
        rows = [crossing_row(budget, utility) for budget in CROSSING_BUDGETS]
        places = np.arange(len(rows))
        trade.plot(places, [row.value for row in rows], "o-", color=colour, ms=4, label=label)
        at = CROSSING_BUDGETS.index(CROSSING_BUDGET)
        trade.plot(at, rows[at].value, "o", color=colour, ms=11, fillstyle="none")
    costs.axvline(CROSSING_BUDGET + 0.5, color="0.3", lw=1, ls=":")
    costs.set(
        xlabel=f"cost of an episode (budget {CROSSING_BUDGET:g})",
        ylabel="probability",
        yscale="log",
        ylim=(1e-3, 1.5),
        xticks=range(5),
        xticklabels=["0", "1", "2", "3", "50 and more"],
    )
    trade.legend(frameon=False, fontsize=8, loc="lower right")
    trade.set(xlabel="budget", ylabel="best expected return", xticks=places)
    trade.set_xticklabels([f"{budget:g}" for budget in CROSSING_BUDGETS])
    return figure


def _draw_map(axis: Axes, utility: Utility) -> None:
    lines = CROSSING.strip().splitlines()
    seen = np.full((len(lines), len(lines[0])), np.nan)
    often = visits(_best_crossing(CROSSING_BUDGET, utility))
    for cell, count in zip(walkable(CROSSING), often, strict=True):
        seen[cell] = count
    axis.imshow(np.minimum(seen, 1.0), cmap="Blues", vmin=0.0, vmax=1.0)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            if letter == "#":
                axis.add_patch(_square(row, column))
            elif letter != ".":
                shade = "w" if seen[row, column] > 0.5 else "0.3"
                axis.text(column, row, letter, ha="center", va="center", fontsize=10, color=shade)
    colour, label = _STYLES[utility]
    axis.set(xticks=[], yticks=[], title=f"{label} ({CROSSING_BUDGET:g})")
    axis.title.set_color(colour)
    axis.spines[:].set_visible(False)


def _square(row: int, column: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1.0, 1.0, color="0.4")


def _figure(
    size: tuple[float, float], rows: int, columns: int, height_ratios: Sequence[float] = (1.0,)
) -> tuple[Figure, Any]:
    # Not pyplot: it keeps figures alive and chooses a backend for the whole process.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, height_ratios=height_ratios)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set_fontsize(10)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
