"""Lanes in step: the same seed for all, played at a speed that can be changed and stopped."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from ucpo.errors import UsageError
from ucpo.show.live.lanes import Lane
from ucpo.show.live.sources import Source

MOST_LANES = 4
SPEEDS = (0.1, 64.0)
PATIENCE = 1.5
"""Seconds an episode that is over stays to be seen."""
AT_ONCE = 0.02
"""Seconds of computing between two pictures, at most: faster than that falls behind the clock."""
_PAST = 60  # episodes remembered


class Stage:
    """What everybody who looks at the page sees.

    Args:
        sources: What may be played; all of one task.
        budgets: Of the first lanes, one per cost each.
        seed: Of the first episode.
    """

    def __init__(
        self, sources: Sequence[Source], budgets: Sequence[Sequence[float]], seed: int = 0
    ) -> None:
        self.sources = sources
        self.lanes: list[Lane] = []
        self.past: deque[dict[str, Any]] = deque(maxlen=_PAST)
        self.paused, self.keep, self.speed, self.seed = False, False, 1.0, seed
        self.episodes = 0
        """Counts up whenever lanes begin anew."""
        self._first = [list(each) for each in budgets]
        self._numbers = 0
        self._debt = 0.0  # seconds of simulated time that are due
        self._over_since: float | None = None
        self.pace = 1.0
        """Simulated seconds in a second, as it was lately; at most `speed`."""
        self.open()

    def open(self) -> bool:
        """Make the first lanes as soon as there is a policy; whether there are any now."""
        if not self.lanes and any(source.ready for source in self.sources):
            for index, source in enumerate(self.sources):
                if source.ready and len(self.lanes) < MOST_LANES:
                    for budgets in self._first or [_middle(source)]:
                        if len(self.lanes) < MOST_LANES:
                            self._add(index, budgets)
            self._begin()
        return bool(self.lanes)

    # --- Time ---

    def advance(self, seconds: float) -> bool:
        """Let some seconds pass; whether there is anything new to see."""
        if self.paused or not self.lanes:
            return False
        if all(lane.over for lane in self.lanes):
            return self._wait()
        self._debt += seconds * self.speed
        each = self.lanes[0].seconds
        until = time.perf_counter() + AT_ONCE
        steps = 0
        while self._debt >= each and not all(lane.over for lane in self.lanes):
            if time.perf_counter() > until:
                self._debt = 0.0
                break
            self._debt -= each
            steps += 1
            for lane in self.lanes:
                lane.step()
        made = steps * each / seconds if seconds > 0.0 else self.speed
        self.pace += 0.1 * (min(made, self.speed) - self.pace)
        if steps:
            self._look()
        return steps > 0

    def _wait(self) -> bool:
        now = time.perf_counter()
        if self._over_since is None:
            self._over_since = now
        if now - self._over_since < PATIENCE:
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        for lane in self.lanes:
            lane.begin(self.seed)
        self.episodes += 1
        self._debt, self._over_since = 0.0, None
        if not self.keep:
            self.seed = (self.seed + 1) % 2**31

    def _look(self) -> None:
        for lane in self.lanes:
            was_over = lane.moment["over"]
            lane.look()
            if lane.over and not was_over:
                self.past.append(lane.outcome())

    # --- Wishes, by name ---

    def obey(self, name: str, wish: dict[str, Any]) -> None:
        """Do what a message asks for, or say in a `UsageError` why not."""
        getattr(self, f"_do_{name}")(**wish)

    def _do_pause(self, on: bool) -> None:
        self.paused = on

    def _do_step(self) -> None:
        self._must_play()
        self.paused = True
        if all(lane.over for lane in self.lanes):
            self._begin()
            return
        for lane in self.lanes:
            lane.step()
        self._look()

    def _do_speed(self, value: float) -> None:
        low, high = SPEEDS
        if not low <= value <= high:
            raise UsageError(f"the speed is {low:g} to {high:g}, got {value:g}")
        self.speed = float(value)

    def _do_restart(self) -> None:
        self._must_play()
        self._begin()

    def _do_seed(self, value: int) -> None:
        self.seed = value

    def _do_keep(self, on: bool) -> None:
        self.keep = on
        if on and self.lanes:
            self.seed = self.lanes[0].seed

    def _do_budget(self, lane: int, values: list[float]) -> None:
        self._lane(lane).set_budgets(values)

    def _do_spend(self, lane: int, extra: list[float]) -> None:
        chosen = self._lane(lane)
        chosen.spend(extra)
        chosen.look()

    def _do_add(self, source: int, values: list[float]) -> None:
        if len(self.lanes) >= MOST_LANES:
            raise UsageError(f"at most {MOST_LANES} side by side")
        if source >= len(self.sources):
            raise UsageError(f"there is no policy number {source}")
        self._add(source, values)
        self.seed = self.lanes[0].seed  # beside the same episode from its beginning
        self._begin()

    def _do_remove(self, lane: int) -> None:
        gone = self._lane(lane)
        if len(self.lanes) == 1:
            raise UsageError("one has to stay")
        self.lanes.remove(gone)
        gone.close()

    def _lane(self, number: int) -> Lane:
        for lane in self.lanes:
            if lane.number == number:
                return lane
        raise UsageError(f"nothing plays as number {number}")

    def _must_play(self) -> None:
        if not self.lanes:
            raise UsageError("there is no policy yet")

    def _add(self, source: int, budgets: Sequence[float]) -> None:
        lane = Lane(self._numbers, self.sources[source], budgets)
        if self.lanes and lane.source.task != self.lanes[0].source.task:
            raise UsageError("only policies of one task play side by side")
        self._numbers += 1
        self.lanes.append(lane)

    # --- What is told ---

    def settings(self) -> dict[str, Any]:
        """Everything that can be set, and what is past."""
        return {
            "kind": "settings",
            "paused": self.paused,
            "keep": self.keep,
            "speed": self.speed,
            "seed": self.seed,
            "lanes": [
                {
                    "lane": lane.number,
                    "source": self.sources.index(lane.source),
                    "budget": lane.budgets,
                }
                for lane in self.lanes
            ],
            "past": list(self.past)[-12:],
        }

    def episode(self) -> dict[str, Any]:
        """The episodes under way, from their beginning."""
        return {"kind": "episode", "lanes": [lane.episode() for lane in self.lanes]}

    def frame(self) -> dict[str, Any]:
        """What is new since the frame before."""
        lanes = [lane.moment for lane in self.lanes]
        return {"kind": "frame", "pace": round(self.pace, 2), "lanes": lanes}

    def close(self) -> None:
        """Let go of all environments."""
        for lane in self.lanes:
            lane.close()


def _middle(source: Source) -> list[float]:
    """A budget to begin with, in the middle of what was trained for."""
    info = source.policy.info
    pairs = zip(info.budget_low, info.budget_high, strict=True)
    return [float(round(0.5 * (low + high))) if high > low else low for low, high in pairs]
