"""How long exact solutions take: ``python benchmarks/exact.py [meadow | crossing] [options]``."""

import argparse
import time

import numpy as np

from ucpo.exact import solve, solve_lagrangian
from ucpo.exact.problems import crossing, meadow
from ucpo.problem import EXCESS, Constraint, Problem

BUDGETS = np.arange(31.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", nargs="?", choices=["meadow", "crossing"], default="meadow")
    parser.add_argument("--slip", type=float, default=0.0)
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--program", type=float, nargs="*", default=BUDGETS.tolist())
    options = parser.parse_args()
    if options.problem == "crossing":
        time_crossing()
    else:
        time_meadow(options)


def time_crossing() -> None:
    problem = Problem((Constraint("cost", EXCESS, 0.0),))
    for route in (solve, solve_lagrangian):
        clock = Clock()
        (answer,) = route(crossing(horizon=60), problem, [-60.0])
        states = answer.policy.augmented.states
        print(f"{route.__name__}, 1 budget, {states} states, stocks and times: {clock}")


def time_meadow(options: argparse.Namespace) -> None:
    finite = meadow(slip=options.slip)
    problem = Problem((Constraint("cost", EXCESS, options.tolerance),))

    clock = Clock()
    answers = solve_lagrangian(finite, problem, -BUDGETS)
    states = answers[0].policy.augmented.states
    gap = max(answer.gap for answer in answers)
    print(f"Lagrangian, {len(BUDGETS)} budgets, {states} states and stocks: {clock}")
    print(f"  returns {answers[0].value:.3f} to {answers[-1].value:.3f}, largest gap {gap:.1e}")

    clock, differ = Clock(), 0.0
    for budget in options.program:
        (answer,) = solve(finite, problem, [-budget])
        same = answers[int(np.flatnonzero(budget == BUDGETS)[0])]
        differ = max(differ, abs(answer.value - same.value))
    print(f"linear program, {len(options.program)} budgets: {clock}, differ by {differ:.1e}")


class Clock:
    """Time since it was made; on a shared machine the processor's is the steadier one."""

    def __init__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def __str__(self) -> str:
        wall, processor = time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]
        return f"{wall:.1f} s ({processor:.1f} s of processor time)"


if __name__ == "__main__":
    main()
