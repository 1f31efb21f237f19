"""Names of the navigation tasks, without the weight of what builds them."""

from __future__ import annotations

ROBOTS = ("Point", "Car")
AIMS = ("Goal", "Button", "Push", "Circle")
LEVELS = (0, 1, 2)
NAMES = tuple(
    f"Safety{robot}{aim}{level}-v0" for robot in ROBOTS for aim in AIMS for level in LEVELS
)
"""Every task there is; levels 1 and 2 are the sixteen of the literature."""

SUMMARIES = {
    "Goal": ("reach a goal again and again", "among hazards", "among hazards and fragile vases"),
    "Button": (
        "press the button that is lit",
        "past wrong buttons, hazards and moving gremlins",
        "past wrong buttons, more hazards and more gremlins",
    ),
    "Push": ("push a box to a goal", "around hazards", "around hazards and pillars"),
    "Circle": ("run around a circle", "between two walls", "between four walls"),
}


def time_limit(name: str) -> int:
    """Environment steps after which an episode is truncated."""
    return 500 if "Circle" in name else 1000


def summary(name: str) -> str:
    """One line on what a task is."""
    robot = next(robot for robot in ROBOTS if robot in name)
    aim = next(aim for aim in AIMS if aim in name)
    level = int(name[-4])
    first, *obstacles = SUMMARIES[aim]
    return f"{robot}: {first}" + (f" {obstacles[level - 1]}" if level else "")
