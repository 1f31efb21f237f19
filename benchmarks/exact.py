"""How long exact solutions take: ``python benchmarks/exact.py [--slip 0.1 --tolerance 2]``."""

import argparse
import time

import numpy as np

from ucpo.exact import solve, solve_lagrangian
from ucpo.exact.problems import meadow
from ucpo.problem import EXCESS, Constraint, Problem

BUDGETS = np.arange(31.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slip", type=float, default=0.0)
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--program", type=float, nargs="*", default=BUDGETS.tolist())
    options = parser.parse_args()
    finite = meadow(slip=options.slip)
    problem = Problem((Constraint("cost", EXCESS, options.tolerance),))

    begun = time.perf_counter()
    answers = solve_lagrangian(finite, problem, -BUDGETS)
    seconds = time.perf_counter() - begun
    states = answers[0].policy.augmented.states
    gap = max(answer.gap for answer in answers)
    print(f"Lagrangian, {len(BUDGETS)} budgets, {states} states and stocks: {seconds:.1f} s")
    print(f"  returns {answers[0].value:.3f} to {answers[-1].value:.3f}, largest gap {gap:.1e}")

    total, differ = 0.0, 0.0
    for budget in options.program:
        begun = time.perf_counter()
        (answer,) = solve(finite, problem, [-budget])
        total += time.perf_counter() - begun
        same = answers[int(np.flatnonzero(budget == BUDGETS)[0])]
        differ = max(differ, abs(answer.value - same.value))
    print(f"linear program, {len(options.program)} budgets: {total:.1f} s, differ by {differ:.1e}")


if __name__ == "__main__":
    main()
