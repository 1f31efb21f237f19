"""What the robot is rewarded for: one class per kind of task, batched over environments."""

from __future__ import annotations

import numpy as np

from ucpo.envs.interface import Bools, Ints
from ucpo.envs.navigation import sensors
from ucpo.envs.navigation.layout import Rules, Stream, redraw
from ucpo.envs.navigation.world import World
from ucpo.problem import Floats

BONUS = 1.0
"""Paid when a goal is reached."""
BUTTON_PAUSE = 10
"""Steps after a success in which buttons are neither seen nor cost anything."""
SPEED_WEIGHT = 0.1
"""What a metre per second along the circle pays there."""
REACHED = 0.3
"""Distance at which a goal counts as reached in Goal and Push."""


class Aim:
    """Some distances to shrink, and a goal that is drawn anew when it is reached."""

    distances = 0
    """How many there are to shrink."""

    def __init__(self, count: int, rules: Rules) -> None:
        self.rules = rules
        self.memory: Floats = np.zeros((count, self.distances))
        """The distances of the step before."""
        self.button: Ints = np.zeros(count, np.int64)
        """Index of the goal button; unused outside Button."""
        self.timer: Ints = np.zeros(count, np.int64)
        """Steps left in which buttons are hidden and free; always 0 outside Button."""

    def measure(self, world: World) -> Floats:
        """Distances to shrink, shape (n, k)."""
        raise NotImplementedError

    def reached(self, world: World, distances: Floats) -> Bools:
        """Whether the goal is reached, shape (n,)."""
        raise NotImplementedError

    def reward(self, world: World) -> tuple[Floats, Bools]:
        """Progress plus the bonus, and whether a goal was reached; remembers the distances."""
        distances = self.measure(world)
        reached = self.reached(world, distances)
        reward: Floats = (self.memory - distances).sum(axis=-1) + BONUS * reached
        self.memory = distances
        return reward, reached

    def renew(self, world: World, row: int, stream: Stream, fresh: bool) -> bool:
        """Set a goal in one environment, given where everything is now.

        Args:
            world: Where everything is.
            row: The environment.
            stream: Its random numbers.
            fresh: Whether an episode begins.

        Returns:
            Whether there was room for a goal.
        """
        goal = world.spans["goal"].start
        places = np.vstack([world.position[row, :2], world.objects[row]])
        place = redraw(self.rules, stream, 1 + goal, places)
        if place is None:
            return False
        world.objects[row, goal] = place
        self._remember(world, row)
        return True

    def _remember(self, world: World, row: int) -> None:
        """The distances to a goal that was set anew."""
        world.look(np.array([row]))
        self.memory[row] = self.measure(world)[row]

    def tick(self) -> None:
        """Let a step pass, after its costs are known and before goals are set anew."""


class ReachGoal(Aim):
    """Come to the goal."""

    distances = 1

    def measure(self, world: World) -> Floats:
        """Planar distance to the goal."""
        return world.measures[:, sensors.TO_GOAL, None].copy()

    def reached(self, world: World, distances: Floats) -> Bools:
        """Inside the goal's rim."""
        return distances[:, 0] <= REACHED


class PressButton(Aim):
    """Touch the button that is the goal; the others cost something unless the timer is running."""

    distances = 1

    def measure(self, world: World) -> Floats:
        """Planar distance to the goal button, which the goal marker stands on."""
        return world.measures[:, sensors.TO_GOAL, None].copy()

    def reached(self, world: World, distances: Floats) -> Bools:
        """A contact, not a distance, and whether or not the timer is running."""
        rows = np.arange(len(distances))
        touched: Bools = world.touching[:, world.spans["buttons"]][rows, self.button]
        return touched

    def renew(self, world: World, row: int, stream: Stream, fresh: bool) -> bool:
        """Any button may be next, the same one too. The first one comes without a pause."""
        buttons = world.spans["buttons"]
        self.button[row] = stream.choice(buttons.stop - buttons.start)
        self.timer[row] = 0 if fresh else BUTTON_PAUSE
        world.objects[row, world.spans["goal"]] = world.objects[row, buttons][self.button[row]]
        self._remember(world, row)
        return True

    def tick(self) -> None:
        """The pause runs out."""
        self.timer -= self.timer > 0


class PushBox(Aim):
    """Come to the box and bring it to the goal. All distances are between centres, in space."""

    distances = 2

    def measure(self, world: World) -> Floats:
        """Robot to box, and box to goal."""
        return world.measures[:, [sensors.TO_BOX, sensors.BOX_TO_GOAL]]

    def reached(self, world: World, distances: Floats) -> Bools:
        """The box is at the goal."""
        return distances[:, 1] <= REACHED


class RunCircle(Aim):
    """Run around the circle counter-clockwise, fast and near its rim."""

    def reward(self, world: World) -> tuple[Floats, Bools]:
        """Tangential speed, less the further from the rim."""
        speed = world.measures[:, sensors.CIRCLING]
        return SPEED_WEIGHT * speed, np.zeros(len(speed), np.bool_)

    def renew(self, world: World, row: int, stream: Stream, fresh: bool) -> bool:
        """There is nothing to reach."""
        return True


AIMS: dict[str, type[Aim]] = {
    "Goal": ReachGoal,
    "Button": PressButton,
    "Push": PushBox,
    "Circle": RunCircle,
}
