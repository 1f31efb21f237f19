"""Finite problems to learn from: the one of appendix B, and maps with short and safe ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ucpo.envs.finite_problem import Branch, FiniteProblem
from ucpo.errors import UsageError

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
WALL, START, GOAL = "#", "S", "G"

STAY = 1  # action of `two_actions`; the other one ends the episode


def two_actions(gamma: float) -> FiniteProblem:
    """Appendix B of the paper: staying pays 1 and costs 1, or the episode ends with nothing."""
    return FiniteProblem(
        branches={(0, 0): [Branch(1.0, None)], (0, STAY): [Branch(1.0, 0, 1.0, (1.0,))]},
        start=[1.0],
        gamma=gamma,
        name="two actions",
    )


def timed_two_actions(horizon: int = 10) -> FiniteProblem:
    """The same without a discount, over after a number of steps."""
    return replace(two_actions(1.0), horizon=horizon, name="two actions, timed")


RISKS = (0.1, 0.3, 0.5, 0.7, 0.9)


def streets(risks: Sequence[float] = RISKS, steps: int = 12) -> FiniteProblem:
    """A drive like the courier's, with two speeds: the fast one pays 1, the safe one 1/2.

    The state is the risk of the street, seen before choosing: the chance that driving fast costs 1.
    Each street is as likely as any other.
    """
    chance = 1.0 / len(risks)
    branches: dict[tuple[int, int], list[Branch]] = {}
    for here, risk in enumerate(risks):
        branches[here, 0] = [Branch(chance, after, 0.5) for after in range(len(risks))]
        branches[here, 1] = [
            Branch(chance * probability, after, 1.0, (cost,))
            for after in range(len(risks))
            for cost, probability in ((1.0, risk), (0.0, 1.0 - risk))
        ]
    start = [chance] * len(risks)
    return FiniteProblem(branches, start, horizon=steps, name="streets")


def machine(worn: int = 4, horizon: int = 12) -> FiniteProblem:
    """Rest, run slowly or run fast. Running wears the machine out, and a worn one breaks down.

    Running slowly pays 1, fast 2. At wear ``w`` of 0 to ``worn - 1``, a breakdown costs 1 with
    probability 0.1 w when slow, and 2 with probability 0.1 + 0.2 w when fast. Wear grows with
    probability 0.3 or 0.6; resting takes one level off.
    """
    branches: dict[tuple[int, int], list[Branch]] = {}
    for wear in range(worn):
        branches[wear, 0] = [Branch(1.0, max(wear - 1, 0))]
        speeds = ((1.0, 0.3, 0.1 * wear, 1.0), (2.0, 0.6, 0.1 + 0.2 * wear, 2.0))
        for action, (reward, wearing, breaking, cost) in enumerate(speeds, start=1):
            branches[wear, action] = [
                Branch(grows * breaks, after, reward, (paid,))
                for grows, after in ((wearing, min(wear + 1, worn - 1)), (1.0 - wearing, wear))
                for breaks, paid in ((breaking, cost), (1.0 - breaking, 0.0))
            ]
    start = [1.0] + [0.0] * (worn - 1)
    return FiniteProblem(branches, start, horizon=horizon, name="machine")


@dataclass(frozen=True)
class Terrain:
    """What entering a cell may cost, and how likely."""

    cost: float
    probability: float = 1.0


CROSSING = """
....#...#....
..~...~...~..
S===========G
"""
"""The bridge (=) leads straight to G but may give way; the path beside it leads through fords (~),
each of which can be walked around in two more steps."""

CROSSING_TERRAIN = {
    "=": Terrain(cost=50.0, probability=0.004),
    "~": Terrain(cost=1.0, probability=0.5),
}


def crossing(horizon: int = 30) -> FiniteProblem:
    """The short way seldom costs, but then a lot; the longer ones cost little, or nothing."""
    return grid(CROSSING, CROSSING_TERRAIN, horizon=horizon, name="crossing")


FORDS = """
...#...
.~...~.
S=====G
"""
"""A shorter crossing whose bridge (=) is slippery instead: it often costs, and little."""

FORDS_TERRAIN = {"=": Terrain(cost=1.0, probability=0.3), "~": Terrain(cost=1.0, probability=0.5)}


def fords(horizon: int = 20) -> FiniteProblem:
    """Three ways of different length; what is left of the budget decides at each fork."""
    return grid(FORDS, FORDS_TERRAIN, horizon=horizon, name="fords")


MEADOW_TERRAIN = {
    "a": Terrain(1.0),
    "b": Terrain(3.0, 0.5),
    "c": Terrain(5.0),
    "d": Terrain(10.0, 0.3),
    "e": Terrain(30.0, 0.05),
}


def meadow(side: int = 20, slip: float = 0.0, seed: int = 0) -> FiniteProblem:
    """A large map, most cells of which cost something, with a free way along three of its edges."""
    letters = list("........aabbbcccddee")
    cells = np.random.default_rng(seed).choice(letters, (side, side))
    cells[0], cells[:, 0], cells[:, -1] = ".", ".", "."
    cells[side // 2, 0], cells[side // 2, -1] = START, GOAL
    map_ = "\n".join("".join(row) for row in cells)
    return grid(map_, MEADOW_TERRAIN, slip=slip, name="meadow")


def grid(
    map_: str,
    terrain: Mapping[str, Terrain],
    gamma: float = 1.0,
    horizon: int | None = None,
    slip: float = 0.0,
    name: str = "grid",
) -> FiniteProblem:
    """A map to walk on from S to G: each step pays -1, and terrain costs when entered.

    Args:
        map_: Lines of cells: S, G, # (wall), . (free) and the letters of `terrain`.
        terrain: What letters on the map cost.
        gamma: Discount of the reward.
        horizon: Steps until the episode ends even if G is not reached.
        slip: Probability that a step goes to either side instead of ahead.
        name: For messages.
    """
    cells = _cells(map_)
    unknown = set(cells.values()) - {START, GOAL, ".", *terrain}
    if unknown or [*cells.values()].count(START) != 1:
        raise UsageError(
            f"{name}: a map needs one {START} and otherwise only {GOAL}, {WALL}, . and the letters "
            f"of its terrain; got {''.join(sorted(unknown)) or map_.strip()}"
        )
    number = {cell: state for state, cell in enumerate(walkable(map_))}
    branches = {}
    for cell in number:
        for action, ahead in enumerate(MOVES.values()):
            sides = [(ahead[1], ahead[0]), (-ahead[1], -ahead[0])]
            moves = [(1.0 - slip, ahead)] + [(slip / 2.0, side) for side in sides if slip > 0.0]
            branches[number[cell], action] = [
                branch
                for probability, move in moves
                for branch in _enter(cell, move, probability, cells, number, terrain)
            ]
    start = [float(cells[cell] == START) for cell in number]
    return FiniteProblem(branches, start, gamma=gamma, horizon=horizon, name=name)


def walkable(map_: str) -> list[tuple[int, int]]:
    """Row and column of each state of `grid`, in the order of their numbers."""
    return [cell for cell, letter in _cells(map_).items() if letter != GOAL]


def _cells(map_: str) -> dict[tuple[int, int], str]:
    return {
        (row, column): letter
        for row, line in enumerate(map_.strip().splitlines())
        for column, letter in enumerate(line)
        if letter != WALL
    }


def _enter(
    cell: tuple[int, int],
    move: tuple[int, int],
    probability: float,
    cells: Mapping[tuple[int, int], str],
    number: Mapping[tuple[int, int], int],
    terrain: Mapping[str, Terrain],
) -> Sequence[Branch]:
    to = (cell[0] + move[0], cell[1] + move[1])
    to = to if to in cells else cell
    ground = terrain.get(cells[to], Terrain(0.0))
    chances = [(ground.probability, ground.cost), (1.0 - ground.probability, 0.0)]
    return [
        Branch(probability * chance, number.get(to), -1.0, (cost,))
        for chance, cost in chances
        if chance > 0.0
    ]
