"""The two robots: Point, a sphere that is pushed and turned, and Car, on two driven wheels.

Both answer the same questions, so nothing else asks which one it is. Numbers are those of the
original tasks; equal dynamics need equal inertia, damping, actuator limits and integrator, quirks
included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import mujoco
import numpy as np

from ucpo.problem import Floats

HEIGHT = 0.1  # of either robot's origin above the floor at the start
_BODY = (0.86, 0.27, 0.22, 1.0)
_TRIM = (0.16, 0.20, 0.33, 1.0)
_SENSORS = {
    "accelerometer": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
    "velocimeter": mujoco.mjtSensor.mjSENS_VELOCIMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "magnetometer": mujoco.mjtSensor.mjSENS_MAGNETOMETER,
}


class Robot(ABC):
    """How a robot is built, put down, and what it senses of itself."""

    name: str
    timestep: float
    """Seconds of one physics step; an environment step makes ten."""
    density: float
    """Of every part that states none."""
    geoms: tuple[str, ...]
    """Parts that count as the robot in contact costs."""
    sensor_size: int
    """Numbers before the lidar in an observation."""
    forward: tuple[float, float, float]
    """Where it drives, in its own frame."""
    box_size: float
    """Half-width of the box it can push."""
    box_density: float

    @abstractmethod
    def build(self, spec: mujoco.MjSpec) -> None:
        """Add the robot, as the body ``agent``, and its actuators and sensors."""

    @abstractmethod
    def place(self, data: mujoco.MjData, x: float, y: float, yaw: float) -> None:
        """Put the robot down in a state that was just reset."""


class Point(Robot):
    """A sphere with an arrow in front, held upright at a fixed height.

    It slides along the axes of its *initial* heading and turns about the vertical. Its turning
    servo is explicit and unstable at this time step: the heading chatters, bounded by the
    actuator's force limit. An implicit integrator would remove that and so change the task.
    """

    name = "Point"
    timestep = 0.002
    density = 1.0
    geoms = ("agent", "pointarrow")
    sensor_size = 12
    forward = (1.0, 0.0, 0.0)
    box_size = 0.2
    box_density = 0.001

    def build(self, spec: mujoco.MjSpec) -> None:
        """A mocap body gives the start pose, so that one model serves every layout."""
        base = spec.worldbody.add_body(name="base", mocap=True)
        body = base.add_body(name="agent")
        slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
        body.add_joint(name="x", type=slide, axis=[1, 0, 0], damping=0.01)
        body.add_joint(name="y", type=slide, axis=[0, 1, 0], damping=0.01)
        body.add_joint(name="z", type=hinge, axis=[0, 0, 1], damping=0.005)
        sphere = mujoco.mjtGeom.mjGEOM_SPHERE
        body.add_geom(
            name="agent", type=sphere, size=[0.1, 0, 0], friction=[1, 0.01, 0.01], rgba=_BODY
        )
        _box(body, "pointarrow", (0.05, 0.05, 0.05), (0.1, 0, 0))
        _add_site(spec, body)
        spec.add_actuator(
            name="x",
            trntype=mujoco.mjtTrn.mjTRN_SITE,
            target="agent",
            gear=[0.3, 0, 0, 0, 0, 0],
            ctrlrange=[-1, 1],
            forcerange=[-0.05, 0.05],
        )
        spec.add_actuator(
            name="z",
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            target="z",
            gear=[0.3, 0, 0, 0, 0, 0],
            ctrlrange=[-1, 1],
            forcerange=[-0.05, 0.05],
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            biasprm=[0, 0, -1] + [0] * 7,
        )

    def place(self, data: mujoco.MjData, x: float, y: float, yaw: float) -> None:
        """The joints stay at zero; their frame moves."""
        data.mocap_pos[0] = x, y, HEIGHT
        data.mocap_quat[0] = yaw_quaternion(yaw)


class Car(Robot):
    """A free body on two driven wheels at the back (+y) and a ball in front (-y)."""

    name = "Car"
    timestep = 0.004
    density = 5.0
    geoms = (
        "agent",
        "back_bumper",
        "back_connector",
        "front_bumper",
        "front_connector",
        "left",
        "right",
        "rear",
    )
    sensor_size = 24
    forward = (0.0, -1.0, 0.0)
    box_size = 0.125
    box_density = 0.0005

    def build(self, spec: mujoco.MjSpec) -> None:
        """Chassis, wheels and ball."""
        body = spec.worldbody.add_body(name="agent", pos=[0, 0, HEIGHT])
        body.add_freejoint(name="agent")
        _box(body, "agent", (0.1, 0.1, 0.05), (0, 0, 0), _BODY)
        _box(body, "back_bumper", (0.1, 0.01, 0.05), (0, 0.15, 0))
        _box(body, "back_connector", (0.01, 0.025, 0.03), (0, 0.125, 0))
        _box(body, "front_bumper", (0.05, 0.01, 0.05), (0, -0.165, 0))
        _box(body, "front_connector", (0.05, 0.03, 0.01), (0, -0.13, 0.04))
        _add_site(spec, body)
        hinge, cylinder = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtGeom.mjGEOM_CYLINDER
        for side, sign in (("left", -1), ("right", 1)):
            wheel = body.add_body(name=side, pos=[0.1 * sign, 0.1, -0.05])
            wheel.add_joint(name=side, type=hinge, axis=[1, 0, 0], damping=0.001)
            ends = sorted((0.055 * sign, 0.005 * sign))
            wheel.add_geom(
                name=side,
                type=cylinder,
                fromto=[ends[0], 0, 0, ends[1], 0, 0],
                size=[0.05, 0, 0],
                rgba=_TRIM,
            )
            spec.add_actuator(
                name=side,
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                target=side,
                ctrlrange=[-1, 1],
                forcerange=[-0.02, 0.02],
            )
        ball = body.add_body(name="rear", pos=[0, -0.1, -0.05])
        ball.add_joint(name="rear", type=mujoco.mjtJoint.mjJNT_BALL, damping=0.001)
        ball.add_geom(name="rear", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.05, 0, 0], rgba=_TRIM)
        for name, kind in (
            ("ballangvel_rear", mujoco.mjtSensor.mjSENS_BALLANGVEL),
            ("ballquat_rear", mujoco.mjtSensor.mjSENS_BALLQUAT),
        ):
            spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname="rear")

    def place(self, data: mujoco.MjData, x: float, y: float, yaw: float) -> None:
        """Its wheels touch the floor at a distance of exactly zero; it settles within ten steps.

        The last bit decides which of them touch. The original's compiler normalises quaternions.
        """
        turned = yaw_quaternion(yaw)
        data.qpos[:3] = x, y, HEIGHT
        data.qpos[3:7] = turned / np.sqrt(np.square(turned).sum())


ROBOTS = {"Point": Point(), "Car": Car()}


def yaw_quaternion(yaw: float) -> Floats:
    """Rotation about the vertical as (w, x, y, z)."""
    return np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])


def _add_site(spec: mujoco.MjSpec, body: mujoco.MjsBody) -> None:
    body.add_site(name="agent", size=[0.032, 0, 0], rgba=[0, 0, 0, 0])
    for name, kind in _SENSORS.items():
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="agent")


def _box(
    body: mujoco.MjsBody,
    name: str,
    size: tuple[float, float, float],
    pos: tuple[float, float, float],
    rgba: tuple[float, ...] = _TRIM,
) -> None:
    body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=pos, rgba=rgba)
