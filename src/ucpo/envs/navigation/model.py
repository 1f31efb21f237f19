"""The physics of an arena: one MuJoCo model per task, in which layouts are data.

Only what collides is in it. Things that stand still are mocap bodies, so that a new layout writes
a few positions and compiles nothing. Hazards, goals and circles exist outside the physics.
"""

from __future__ import annotations

import mujoco
import numpy as np

from ucpo.envs.navigation.tasks import DRAGGED, FIXED, FREE, Arena, Objects

VASE_SINK = 4e-5
"""How deep vases start in the floor, so that settling stays below the speed that costs."""
HEIGHTS = {"vases": 0.1 - VASE_SINK, "gremlins": 0.1, "buttons": 0.1, "pillars": 0.5}
"""Of the centre of each kind above the floor at the start; the box starts at half its height."""
COLOURS = {
    "goal": (0.18, 0.70, 0.35, 0.35),
    "hazards": (0.20, 0.45, 0.90, 0.35),
    "vases": (0.10, 0.70, 0.75, 1.0),
    "pillars": (0.45, 0.45, 0.60, 1.0),
    "buttons": (0.95, 0.60, 0.15, 1.0),
    "gremlins": (0.55, 0.25, 0.80, 1.0),
    "push_box": (0.90, 0.80, 0.20, 1.0),
    "circle": (0.18, 0.70, 0.35, 0.15),
    "sigwalls": (0.80, 0.65, 0.10, 0.20),
}
# MuJoCo 3 has a new collider for convex shapes and lets it find several contact points. The
# original ran on the old one, with which a wheel against a box agrees far better.
_OLD_COLLIDER = int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD) | int(
    getattr(mujoco.mjtDisableBit, "mjDSBL_MULTICCD", 0)  # an enabling flag before 3.8
)
_LIGHT = 0.001  # density of vases and gremlins


def object_names(objects: Objects) -> list[str]:
    """Names of the bodies of one kind, in order."""
    if not objects.kind.endswith("s"):
        return [objects.kind]
    return [f"{objects.kind.removesuffix('s')}{i}" for i in range(objects.count)]


def build(arena: Arena, sleep: bool) -> mujoco.MjModel:
    """Compile the model of an arena.

    Args:
        arena: The task.
        sleep: Whether objects at rest leave the computation until something touches them.
    """
    spec = mujoco.MjSpec()
    spec.option.timestep = arena.robot.timestep
    spec.option.disableflags |= _OLD_COLLIDER
    # A state that blows up must stay as it is to be noticed.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    if sleep:
        spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    spec.default.geom.condim = 6
    spec.default.geom.density = arena.robot.density
    _add_floor(spec)
    arena.robot.build(spec)
    for kinds in (FIXED, FREE, DRAGGED):
        for objects in arena.objects:
            if objects.kind in kinds:
                for name in object_names(objects):
                    _ADD[objects.kind](spec, name, objects, arena)
    return spec.compile()


def object_geoms(model: mujoco.MjModel, arena: Arena) -> dict[str, list[list[int]]]:
    """Ids of the geoms of each colliding object, by kind."""
    found = {}
    for objects in arena.objects:
        if objects.kind in FIXED + FREE + DRAGGED:
            bodies = [model.body(name).id for name in object_names(objects)]
            found[objects.kind] = [
                np.flatnonzero(model.geom_bodyid == body).tolist() for body in bodies
            ]
    return found


def _add_floor(spec: mujoco.MjSpec) -> None:
    spec.add_texture(
        name="floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        width=64,
        height=64,
        rgb1=[0.93, 0.93, 0.91],
        rgb2=[0.87, 0.87, 0.85],
    )
    material = spec.add_material(name="floor", texrepeat=[7, 7])
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    spec.worldbody.add_geom(name="floor", type=plane, size=[3.5, 3.5, 0.1], material="floor")
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0, 0, 4],
        dir=[0.3, 0.4, -1],
        diffuse=[0.6, 0.6, 0.6],
        castshadow=False,
    )
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.25, 0.25, 0.25]
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        width=64,
        height=384,
        rgb1=[0.80, 0.88, 0.96],
        rgb2=[0.97, 0.98, 1.0],
    )


def _add_button(spec: mujoco.MjSpec, name: str, objects: Objects, arena: Arena) -> None:
    body = spec.worldbody.add_body(name=name, mocap=True)
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[objects.size, 0, 0], rgba=COLOURS["buttons"]
    )


def _add_pillar(spec: mujoco.MjSpec, name: str, objects: Objects, arena: Arena) -> None:
    body = spec.worldbody.add_body(name=name, mocap=True)
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[objects.size, 0.5, 0], rgba=COLOURS["pillars"]
    )


def _add_vase(spec: mujoco.MjSpec, name: str, objects: Objects, arena: Arena) -> None:
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    _add_box(body, [objects.size] * 3, _LIGHT, "vases")


def _add_push_box(spec: mujoco.MjSpec, name: str, objects: Objects, arena: Arena) -> None:
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    half, density = objects.size, arena.robot.box_density
    _add_box(body, [half] * 3, density, "push_box")
    for x in (half, -half):  # columns the robot can catch hold of, centred on the vertical edges
        for y in (half, -half):
            _add_box(body, [half / 2, half / 2, half], density, "push_box", [x, y, 0.0])


def _add_gremlin(spec: mujoco.MjSpec, name: str, objects: Objects, arena: Arena) -> None:
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    _add_box(body, [objects.size] * 3, _LIGHT, "gremlins")
    # The weld pulls it to its guide's pose: the relative pose is the identity, whatever the layout.
    guide = spec.worldbody.add_body(name=f"{name}guide", mocap=True)
    weld = spec.add_equality(
        type=mujoco.mjtEq.mjEQ_WELD,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name1=guide.name,
        name2=name,
        solref=[0.02, 1.5],
    )
    # MuJoCo 2 weighed the rotational error like the translational one; from 3.0 on it has the
    # weight of the body's rotational inertia and is far softer. The scale of torques makes up for
    # the ratio of the two, the square root of mass over moment of inertia.
    torque_scale = np.sqrt(1.5) / objects.size
    weld.data[:11] = [
        0,
        0,
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        torque_scale,
    ]  # anchor, position, rotation, scale


def _add_box(
    body: mujoco.MjsBody,
    size: list[float],
    density: float,
    kind: str,
    pos: list[float] | None = None,
) -> None:
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=size,
        pos=pos or [0.0, 0.0, 0.0],
        density=density,
        rgba=COLOURS[kind],
    )


_ADD = {
    "buttons": _add_button,
    "pillars": _add_pillar,
    "vases": _add_vase,
    "push_box": _add_push_box,
    "gremlins": _add_gremlin,
}
