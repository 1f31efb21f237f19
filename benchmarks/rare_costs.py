"""What quantile critics see of a rare cost: ``python benchmarks/rare_costs.py``.

The bridge of the crossing: 11 cells, each of which costs 50 with probability 0.004. The expected
cost is 2.2. A critic with N quantiles, learning from windows of n steps, converges to the fixed
point computed here: no network and no sampling, only the projection onto N quantiles.
"""

from math import comb

import numpy as np

from ucpo.exact.problems import CROSSING, CROSSING_TERRAIN

BRIDGE = CROSSING_TERRAIN["="]
CELLS = CROSSING.count("=")
QUANTILES = (32, 100, 128, 200, 400)
STEPS = (1, 3, 5, 10)


def main() -> None:
    print(
        f"expected cost {CELLS * BRIDGE.cost * BRIDGE.probability:.2f}; critics with N quantiles:"
    )
    print("   N  " + "  ".join(f"{steps:>2} steps" for steps in STEPS))
    for quantiles in QUANTILES:
        seen = [fixed_point(quantiles, steps) for steps in STEPS]
        print(f"{quantiles:>4}  " + "  ".join(f"{value:8.2f}" for value in seen))


def fixed_point(quantiles: int, steps: int) -> float:
    """Mean of the quantiles at the beginning of the bridge."""
    critics = [np.zeros(quantiles)]  # with so many cells to go
    for cells in range(1, CELLS + 1):
        window = min(steps, cells)
        times = np.arange(window + 1)  # it gives way within the window
        chances = np.array(
            [
                comb(window, k) * BRIDGE.probability**k * (1 - BRIDGE.probability) ** (window - k)
                for k in times
            ]
        )
        targets = (times[:, None] * BRIDGE.cost + critics[cells - window]).ravel()
        critics.append(project(targets, np.repeat(chances, quantiles) / quantiles, quantiles))
    return float(critics[-1].mean())


def project(values: np.ndarray, chances: np.ndarray, count: int) -> np.ndarray:
    """The quantiles at (2i - 1) / 2N of a distribution, what quantile regression converges to."""
    order = np.argsort(values, kind="stable")
    levels = (2 * np.arange(count) + 1) / (2 * count)
    return values[order][np.searchsorted(np.cumsum(chances[order]), levels - 1e-12)]


if __name__ == "__main__":
    main()
