"""Charts drawn with matplotlib, as SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ucpo.reports.charts import Chart, Figure, Series

FORMATS = ("svg", "png")
_PANEL = (4.6, 3.0)  # inches
_LEGEND_LINE = 0.19  # inches
_SLANT = 35.0  # degrees
_LETTER = 0.052  # inches, of slanted names
_NAME = 44  # letters of a slanted name
_WORTH = 10  # figures that make up for starting a process
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")


def draw_all(figures: Sequence[Figure], folder: Path, processes: int = 1) -> Iterator[list[Path]]:
    """Write figures, on several processes where there are many; yields the files of each."""
    processes = min(processes, len(figures) // _WORTH)
    if processes <= 1:
        yield from (draw(figure, folder) for figure in figures)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(draw, folder=folder), figures, chunksize=4)


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure in every format; returns the files."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas  # no pyplot: nothing global, no window

    labels = _legend(figure)
    columns = min(3, max(1, len(labels)))
    aside, below = _slanted(figure)
    legend = below + _LEGEND_LINE * math.ceil(len(labels) / columns)
    width = _PANEL[0] * len(figure.charts)
    height = _PANEL[1] + legend + 0.25
    paths = [folder / f"{figure.name}.{ending}" for ending in FORMATS]
    # Text stays text in SVG, and the same content gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name}):
        canvas = Canvas(figsize=(width, height))
        # Fixed margins: a layout engine would take longer than the drawing.
        axes = canvas.subplots(1, len(figure.charts), squeeze=False)[0]
        canvas.subplots_adjust(
            left=max(0.75, aside) / width,
            right=1.0 - 0.15 / width,
            bottom=(legend + 0.42) / height,
            top=1.0 - 0.62 / height,
            wspace=0.26,
        )
        canvas.suptitle(
            f"{figure.task}: {figure.title}", fontsize=10, y=1.0 - 0.1 / height, va="top"
        )
        handles: dict[str, Any] = {}
        for axis, chart in zip(axes, figure.charts, strict=True):
            _draw_chart(axis, chart, handles)
        if handles:
            canvas.legend(
                handles.values(),
                handles.keys(),
                loc="lower center",
                ncols=columns,
                frameon=False,
                fontsize=8,
                borderaxespad=0.1,
                labelspacing=0.25,
                columnspacing=1.4,
                handlelength=1.8,
            )
        for path in paths:
            canvas.savefig(
                path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None
            )
    return paths


def _slanted(figure: Figure) -> tuple[float, float]:
    """How far slanted names reach to the left of their place, and below it, in inches."""
    names = [text for chart in figure.charts if chart.slanted for _, text in chart.ticks]
    length = _LETTER * max((len(_cut(name)) for name in names), default=0)
    return length * math.cos(math.radians(_SLANT)), length * math.sin(math.radians(_SLANT))


def _cut(name: str) -> str:
    """A name that leaves room for the chart; tables have all of it."""
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def _legend(figure: Figure) -> list[str]:
    labels = [
        series.label
        for chart in figure.charts
        for series in chart.series
        if not _named_below(chart, series)
    ]
    labels += [rule.key for chart in figure.charts for rule in chart.rules]
    return list(dict.fromkeys(labels))


def _named_below(chart: Chart, series: Series) -> bool:
    """Whether the axis names a series, so that a legend need not."""
    return any(series.label == text for _, text in chart.ticks)


def _draw_chart(axis: Any, chart: Chart, handles: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.92", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.set_title(chart.title, fontsize=9, y=1.0)  # a fixed place: finding one takes long
    axis.set_xlabel(chart.x_label, fontsize=8)
    axis.set_ylabel(chart.y_label, fontsize=8)
    for i, series in enumerate(chart.series):
        handle = _draw_series(axis, chart, series, _MARKERS[i % len(_MARKERS)])
        if not _named_below(chart, series):
            handles.setdefault(series.label, handle)
    ends = [x for series in chart.series for x in series.x]
    for rule in chart.rules:
        look: dict[str, Any] = {"color": rule.colour, "linestyle": rule.dash, "linewidth": 1.0}
        if rule.along == "diagonal" and ends:
            axis.plot([min(ends), max(ends)], [min(ends), max(ends)], **look)
        elif rule.along == "y":
            axis.axhline(rule.at, **look)
        else:
            axis.axvline(rule.at, **look)
        if rule.key not in handles:  # one line for all colours
            handles[rule.key] = Line2D([], [], **{**look, "color": "#333333"})
    if chart.ticks:
        names = [_cut(text) if chart.slanted else text for _, text in chart.ticks]
        axis.set_xticks([at for at, _ in chart.ticks], names)
        if chart.slanted:
            for label in axis.get_xticklabels():
                label.set(rotation=_SLANT, ha="right", rotation_mode="anchor", fontsize=7)
    elif ends and max(map(abs, ends)) >= 1e5:
        axis.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
        axis.xaxis.get_offset_text().set_fontsize(7)


def _reach(chart: Chart, y: float, half: float) -> float:
    """How far an interval goes down: not below what can be."""
    return half if chart.floor is None else min(half, max(0.0, y - chart.floor))


def _draw_series(axis: Any, chart: Chart, series: Series, marker: str) -> Any:
    colour = series.colour
    if series.kind == "steps":
        return axis.stairs(series.y, series.x, color=colour, linewidth=1.2, fill=False)
    half = [float("nan") if each is None else each for each in series.half]
    below = [_reach(chart, y, h) for y, h in zip(series.y, half, strict=False)]
    if series.kind == "line":
        line = axis.plot(series.x, series.y, color=colour, linewidth=1.3)[0]
        if half:
            low = [y - h for y, h in zip(series.y, below, strict=True)]
            high = [y + h for y, h in zip(series.y, half, strict=True)]
            axis.fill_between(series.x, low, high, color=colour, alpha=0.15, linewidth=0)
        return line
    if series.kind == "bars":
        bars = axis.bar(series.x, series.y, series.width, color=colour)
        if half:
            low = [y - h for y, h in zip(series.y, below, strict=True)]
            high = [y + h for y, h in zip(series.y, half, strict=True)]
            axis.vlines(series.x, low, high, colors="#222222", linewidth=1.0)
        return bars
    from matplotlib.transforms import ScaledTranslation

    aside = ScaledTranslation(series.dodge / 72.0, 0.0, axis.figure.dpi_scale_trans)
    none = [0.0] * len(series.x)
    for x, y, down, up in zip(series.x, series.y, below or none, half or none, strict=True):
        ends = [y - down, y + up]  # what is drawn aside does not move the limits
        axis.update_datalim([(x, y if math.isnan(end) else end) for end in ends])
    axis.autoscale_view()
    return axis.errorbar(
        series.x,
        series.y,
        [below, half] if half else None,
        transform=axis.transData + aside,
        fmt=marker,
        linestyle="-" if series.kind == "marks" else "none",
        color=colour,
        markersize=4,
        markerfacecolor=colour if series.kind == "marks" else "white",
        linewidth=0.9,
        elinewidth=0.9,
        capsize=2,
    )
