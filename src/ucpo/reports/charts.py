"""What a chart shows, as data; drawn by matplotlib for paper and by a script for the browser."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Literal

PAPER_GREY = "#8a8a8a"
_KNOWN = {
    "ucp": "#0b6e99",
    "ucp-mean": "#c2571a",
    "ucp-nr": "#4d7c2a",
    "ucp-nr-mean": "#7b4b94",
    "ucp-na": "#a33b5c",
    "ucp-ds": "#8a6d1f",
}
_OTHERS = (
    *("#1f9e89", "#5b6abf", "#d08a00", "#bf5fa8", "#6b8e23", "#c23b22", "#3fa7d6", "#8c564b"),
    *("#9467bd", "#2e8b57", "#e377c2", "#4c5b70"),
)
BANDS = ("#2a5fb8", "#1b9e9e", "#5aa832", "#d6a400", "#e2711d", "#c0392b", "#8e44ad", "#5d6d7e")
"""Of bands of budgets, from the smallest on."""


@dataclass(frozen=True)
class Series:
    """Points of one method."""

    label: str
    x: tuple[float, ...]
    """For ``steps`` the edges, one more than `y`."""
    y: tuple[float, ...]
    colour: str
    kind: Literal["line", "marks", "points", "bars", "steps"] = "line"
    """``marks``: points joined by a line; ``points``: not joined."""
    half: tuple[float | None, ...] = ()
    """Half-widths of intervals around `y`; None where not known."""
    notes: tuple[str, ...] = ()
    """What stands behind each point."""
    width: float = 0.0
    """Of bars, in units of x."""
    dodge: float = 0.0
    """How far marks are drawn to the side of x, in points: methods at one x stay apart."""


@dataclass(frozen=True)
class Rule:
    """A straight line across a chart: ``x`` upright, ``y`` level, ``diagonal`` where y = x."""

    along: Literal["x", "y", "diagonal"]
    at: float
    label: str
    colour: str = "#333333"
    dash: Literal["solid", "dashed", "dotted"] = "dashed"
    kind: str = ""
    """What such lines have in common, for a legend; by default the label."""

    @property
    def key(self) -> str:
        """What a legend calls it."""
        return self.kind or self.label


@dataclass(frozen=True)
class Chart:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    rules: tuple[Rule, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    """Named places on the x axis instead of numbers."""
    floor: float | None = None
    """What `y` cannot be below, such as a cost below 0: intervals end there."""

    @property
    def slanted(self) -> bool:
        """Whether the named places are too long to stand side by side."""
        return sum(len(text) + 2 for _, text in self.ticks) > 60


@dataclass(frozen=True)
class Figure:
    """Charts that belong together."""

    name: str
    """Of its files, without an ending."""
    task: str
    title: str
    caption: str
    charts: tuple[Chart, ...]


def colours(methods: list[str]) -> dict[str, str]:
    """A colour for each method, the same in every report for those of the paper."""
    others = [method for method in methods if method not in _KNOWN]
    spare = {method: _spare(i) for i, method in enumerate(others)}
    return {method: _KNOWN.get(method) or spare[method] for method in methods}


def _spare(i: int) -> str:
    """The i-th colour: from the list, then ever more around the circle; no two are the same."""
    if i < len(_OTHERS):
        return _OTHERS[i]
    red, green, blue = colorsys.hls_to_rgb(0.618034 * i % 1.0, 0.42, 0.55)
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))


def safe(text: str) -> str:
    """A text as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
