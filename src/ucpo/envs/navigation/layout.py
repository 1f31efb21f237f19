"""Where everything stands at the start: rejection sampling, number for number as in the original.

The original draws from NumPy's legacy generator. The same draws are read here in blocks by compiled
code, and what was not used is put back, so that a seed gives the very layout it gives there. Whole
layouts are thrown away when one object finds no place, which the Button tasks do hundreds of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from ucpo.envs.interface import Arrays
from ucpo.envs.navigation.tasks import Arena
from ucpo.errors import UsageError
from ucpo.problem import Floats

TRIES_PER_OBJECT = 100
MAX_LAYOUTS = 10_000
GOAL_TRIES = 10_000
_WORDS = 256  # the least to draw at a time
_LARGEST_BLOCK = 8192
_JITTER = 1e-9  # fixed locations are drawn too, from a square this small


_MT_WORDS = 624  # of the generator's state


@dataclass
class Idling:
    """How many steps all environments of a batch have made, in each of which streams idle."""

    steps: int = 0


class Stream:
    """The random numbers of one environment, in the original's order.

    Raw words of the generator wait in a buffer: a uniform draw takes two of them, a choice one. So
    any number of draws can be looked at and only those used are taken.

    Args:
        seed: Of the numbers to come.
        idling: Counts steps; by default none are made.
    """

    def __init__(self, seed: int, idling: Idling | None = None) -> None:
        self._random = np.random.RandomState()
        self._idling = idling or Idling()
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin again."""
        if not 0 <= seed < 2**32:
            raise UsageError(f"a seed must be between 0 and 2**32 - 1, got {seed}")
        self._random.seed(seed)
        self._words = np.zeros(0, np.uint32)
        self._cursor, self._idled = 0, self._idling.steps

    def idle(self, steps: int = 1) -> None:
        """Pass over what the original draws in each step and never uses."""
        self._cursor += 2 * steps

    def _catch_up(self) -> None:
        self.idle(self._idling.steps - self._idled)
        self._idled = self._idling.steps

    def read(self, use: Callable[[Floats], tuple[int, bool]], block: int) -> None:
        """Offer uniform draws until `use` has enough of them.

        Args:
            use: Takes draws, returns how many of them are used up and whether that was enough. What
                it did not use up is offered again, followed by more.
            block: Draws to begin with.
        """
        enough = False
        while not enough:
            self._fill(2 * block)
            used, enough = use(_uniform(self._words[self._cursor : self._cursor + 2 * block]))
            self._cursor += 2 * used
            block = min(2 * block, max(block, _LARGEST_BLOCK))

    def choice(self, count: int) -> int:
        """A whole number below `count`: the lowest bits of the first word for which they are."""
        mask = (1 << (count - 1).bit_length()) - 1
        while True:
            self._fill(1)
            drawn = int(self._words[self._cursor]) & mask
            self._cursor += 1
            if drawn < count:
                return drawn

    def get_state(self) -> Arrays:
        """What `set_state` needs to go on from here."""
        self._catch_up()
        generator: Any = self._random.get_state(legacy=False)
        return {
            "generator_key": generator["state"]["key"],
            "generator_pos": np.array(generator["state"]["pos"]),
            "words": self._words.copy(),
            "cursor": np.array(self._cursor),
        }

    def set_state(self, state: Arrays) -> None:
        """Go on from a saved state."""
        place, cursor = int(state["generator_pos"]), int(state["cursor"])
        if not (0 <= place <= _MT_WORDS and 0 <= cursor < 2**30):  # the generator does not check
            raise UsageError("the saved state of a task's random numbers is impossible")
        # Normal deviates, which the generator could keep one of, are never drawn.
        self._random.set_state(("MT19937", state["generator_key"], place, 0, 0.0))
        self._words, self._cursor = state["words"].copy(), cursor
        self._idled = self._idling.steps

    def _fill(self, words: int) -> None:
        self._catch_up()
        missing = self._cursor + words - len(self._words)
        if missing > 0:
            drawn = self._random.randint(0, 2**32, max(missing, _WORDS), np.uint32)
            left = self._words[self._cursor :]
            self._cursor = max(0, self._cursor - len(self._words))  # idle beyond the buffer
            self._words = np.concatenate([left, drawn])


@dataclass(frozen=True)
class Rules:
    """Where the robot (first) and each object may be placed, and how far apart."""

    low: Floats  # (1 + objects, 2) smallest x, y
    high: Floats  # (1 + objects, 2)
    keepout: Floats  # (1 + objects,)

    @classmethod
    def of(cls, arena: Arena) -> Rules:
        """Read the rules off an arena, in the order of its objects."""
        keepout = [arena.robot_keepout]
        centre = [(0.0, 0.0)]
        reach = [arena.extent]
        for objects in arena.objects:
            keepout += [objects.keepout] * objects.count
            centre += objects.locations or [(0.0, 0.0)] * objects.count
            reach += [_JITTER if objects.locations else arena.extent] * objects.count
        room = np.array(reach)[:, None]
        radius = np.array(keepout)
        if (radius > room[:, 0]).any():
            raise UsageError(
                f"an extent of {arena.extent} is smaller than the largest keep-out, {radius.max()}"
            )
        middle = np.array(centre)
        return cls(middle - room + radius[:, None], middle + room - radius[:, None], radius)


@dataclass(frozen=True)
class Layout:
    """One drawn arrangement."""

    robot: Floats  # (2,)
    robot_yaw: float
    objects: Floats  # (objects, 2)
    yaws: Floats  # (objects,)


def draw(rules: Rules, stream: Stream) -> Layout:
    """Draw positions, then rotations."""
    count = len(rules.keepout)
    places, turns = np.zeros((count, 2)), np.zeros(count)
    layouts_tried = 0

    def use(draws: Floats) -> tuple[int, bool]:
        nonlocal layouts_tried
        used, tried, complete = _arrange(draws, rules.low, rules.high, rules.keepout, places, turns)
        layouts_tried += tried
        if layouts_tried > MAX_LAYOUTS:
            raise UsageError(
                f"no room for {count - 1} objects after {MAX_LAYOUTS} attempts; choose fewer of "
                "them or a larger extent"
            )
        return used, complete

    stream.read(use, block=8 * count)
    return Layout(places[0], float(turns[0]), places[1:], turns[1:])


def redraw(rules: Rules, stream: Stream, which: int, places: Floats) -> Floats | None:
    """A new place for one object given where the others are, or None if none is found.

    Args:
        rules: Where it may be.
        stream: Source of randomness.
        which: The object, counting the robot.
        places: Current positions of the robot and all objects, shape (1 + objects, 2).
    """
    place = np.zeros(2)
    found, tried = False, 0

    def use(draws: Floats) -> tuple[int, bool]:
        nonlocal found, tried
        used, tries, found = _replace(
            draws, rules.low[which], rules.high[which], rules.keepout, which, places, place,
            GOAL_TRIES - tried,
        )  # fmt: skip
        tried += tries
        return used, found or tried >= GOAL_TRIES

    stream.read(use, block=32)
    return place if found else None


@njit(cache=True, nogil=True)
def _uniform(words):  # type: ignore[no-untyped-def]
    """Uniform draws in [0, 1) of 53 bits each, as the generator makes them of two words."""
    draws = np.empty(len(words) // 2)
    for i in range(len(draws)):
        draws[i] = ((words[2 * i] >> 5) * 67108864.0 + (words[2 * i + 1] >> 6)) / 9007199254740992.0
    return draws


@njit(cache=True, nogil=True)
def _arrange(draws, low, high, keepout, places, turns):  # type: ignore[no-untyped-def]
    """Fill `places` and `turns`; return draws used up, layouts thrown away, whether it is complete.

    A layout the draws run out on is not used up: it is tried again with more of them.
    """
    count = len(keepout)
    cursor = begin = thrown_away = 0
    while True:
        placed = 0
        while placed < count:
            fits = False
            for _ in range(TRIES_PER_OBJECT):
                if cursor + 2 > len(draws):
                    return begin, thrown_away, False
                x = low[placed, 0] + (high[placed, 0] - low[placed, 0]) * draws[cursor]
                y = low[placed, 1] + (high[placed, 1] - low[placed, 1]) * draws[cursor + 1]
                cursor += 2
                fits = True
                for other in range(placed):
                    gap = np.sqrt((x - places[other, 0]) ** 2 + (y - places[other, 1]) ** 2)
                    if gap < keepout[placed] + keepout[other]:
                        fits = False
                        break
                if fits:
                    places[placed, 0] = x
                    places[placed, 1] = y
                    break
            if not fits:
                break
            placed += 1
        if placed == count:
            break
        thrown_away += 1
        begin = cursor
    if cursor + count > len(draws):
        return begin, thrown_away, False
    for i in range(count):
        turns[i] = 2 * np.pi * draws[cursor + i]
    return cursor + count, thrown_away, True


@njit(cache=True, nogil=True)
def _replace(draws, low, high, keepout, which, places, place, tries):  # type: ignore[no-untyped-def]
    """Fill `place`; return draws used up, tries made, whether it fits."""
    for tried in range(min(len(draws) // 2, tries)):
        place[0] = low[0] + (high[0] - low[0]) * draws[2 * tried]
        place[1] = low[1] + (high[1] - low[1]) * draws[2 * tried + 1]
        fits = True
        for other in range(len(keepout)):
            if other != which:
                gap = np.sqrt(
                    (place[0] - places[other, 0]) ** 2 + (place[1] - places[other, 1]) ** 2
                )
                if gap < keepout[which] + keepout[other]:
                    fits = False
                    break
        if fits:
            return 2 * (tried + 1), tried + 1, True
    tried = min(len(draws) // 2, tries)
    return 2 * tried, tried, False
