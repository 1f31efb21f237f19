"""What an arena charges for: indicators by name, batched over environments."""

from __future__ import annotations

import numpy as np

from ucpo.envs.interface import Bools
from ucpo.envs.navigation import sensors
from ucpo.envs.navigation.aims import Aim
from ucpo.envs.navigation.tasks import COST_NAMES, WALL
from ucpo.envs.navigation.world import World

MOVING = 1e-4
"""Speed from which a vase counts as moving, in m/s."""


def indicators(world: World, aim: Aim) -> dict[str, Bools]:
    """Every cost the arena can give, by name, of shape (n,); ``cost`` is any constrained one."""
    found: dict[str, Bools] = {}
    total = np.zeros(len(world.position), np.bool_)
    for objects in world.arena.objects:
        if objects.count and objects.kind in COST_NAMES:
            of_kind = _OF_KIND[objects.kind](world, aim)
            found |= of_kind
            if objects.constrained:
                total |= of_kind[COST_NAMES[objects.kind][0]]
    return {"cost": total} | found


def _hazards(world: World, aim: Aim) -> dict[str, Bools]:
    distance = world.measures[:, sensors.TO_HAZARD]
    return {"hazards": distance < world.arena.of("hazards").size}


def _vases(world: World, aim: Aim) -> dict[str, Bools]:
    moving = world.measures[:, sensors.VASE_SPEED] >= MOVING
    touched = _touched(world, "vases")
    return {"vases": touched | moving, "vases_contact": touched, "vases_velocity": moving}


def _buttons(world: World, aim: Aim) -> dict[str, Bools]:
    touched = world.touching[:, world.spans["buttons"]].copy()
    touched[np.arange(len(touched)), aim.button] = False
    charged: Bools = touched.any(-1) & (aim.timer == 0)
    return {"buttons": charged}


def _gremlins(world: World, aim: Aim) -> dict[str, Bools]:
    return {"gremlins": _touched(world, "gremlins")}


def _pillars(world: World, aim: Aim) -> dict[str, Bools]:
    return {"pillars": _touched(world, "pillars")}


def _walls(world: World, aim: Aim) -> dict[str, Bools]:
    axes = world.arena.of("sigwalls").count // 2
    outside = np.abs(world.position[:, :axes]) > WALL
    return {"out_of_boundary": np.asarray(outside.any(axis=-1))}


def _touched(world: World, kind: str) -> Bools:
    return np.asarray(world.touching[:, world.spans[kind]].any(axis=-1))


_OF_KIND = {
    "hazards": _hazards,
    "vases": _vases,
    "buttons": _buttons,
    "gremlins": _gremlins,
    "pillars": _pillars,
    "sigwalls": _walls,
}
