"""A report: tables, figures and one page, from run folders and evaluation files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from ucpo.errors import UsageError, shell
from ucpo.reports import labels
from ucpo.reports import sheets as writing
from ucpo.reports.charts import Figure
from ucpo.reports.contents import sheets
from ucpo.reports.drawing import draw_all
from ucpo.reports.findings import findings
from ucpo.reports.html import page
from ucpo.reports.sheets import Sheet, markdown
from ucpo.reports.sources import Sources, read_sources
from ucpo.reports.views import figures
from ucpo.stats import over_seeds
from ucpo.storage.names import CONFIG_FILE

TITLE = "Return and cost under budgets"


def build(
    paths: Sequence[Path],
    output: Path,
    *,
    against_paper: bool = False,
    names: Mapping[Path, str] | None = None,
    processes: int = 1,
    drawn: Callable[[int, int], None] = lambda done, of: None,
    told: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write ``report.md``, ``report.html``, ``tables/`` and ``figures/``; returns the page.

    Args:
        paths: Run folders, folders of run folders, evaluation files.
        output: Folder to write to; files of an earlier report there are replaced.
        against_paper: Set the paper's numbers beside ours.
        names: What to call the runs below a folder instead of by their method.
        processes: How many may draw at once.
        drawn: Told after each figure how many are drawn, and of how many.
        told: Told what a reader of the report must know of what is not in it.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; a report needs a folder")
    sources = read_sources(paths, names)
    for text in _remarks(sources):
        told(text)
    summary = over_seeds(sources.seeds)
    tables = sheets(sources, summary, against_paper)
    views = figures(sources, summary, tables[0].data, against_paper)
    for folder in (output / "tables", output / "figures"):
        folder.mkdir(parents=True, exist_ok=True)
    for sheet in tables:
        writing.write(sheet, output / "tables")
    for done, _ in enumerate(draw_all(views, output / "figures", processes), 1):
        drawn(done, len(views))
    text, found = _summary(sources), findings(summary)
    (output / "report.md").write_text(_markdown(found, text, tables, views), encoding="utf-8")
    target = output / "report.html"
    target.write_text(page(TITLE, found, text, tables, views), encoding="utf-8")
    return target


def _summary(sources: Sources) -> str:
    seeds = sources.seeds
    runs = seeds.select("task", "method", "training_seed").n_unique()
    episodes = sum(len(frame) for frame in sources.episodes)
    steps = seeds.select("task", "method", "training_seed", "env_steps").unique()["env_steps"]
    known = steps.drop_nulls()
    trained = f", trained for {_range(known)} environment steps" if len(known) else ""
    return (
        f"{_count(runs, 'run')} of {_count(seeds['method'].n_unique(), 'method')} on "
        f"{_count(seeds['task'].n_unique(), 'task')}"
        f"{trained}; {episodes:,} episodes. A training seed is one sample: intervals are 95 % "
        "Student-t intervals over seeds. Where there is no run, there is no number."
        + "".join(f" {text}" for text in _remarks(sources))
    )


def _remarks(sources: Sources) -> list[str]:
    """What is missing, and what could not be known."""
    said = []
    if sources.unevaluated:
        named = ", ".join(map(str, sources.unevaluated))
        said.append(
            f"Not evaluated, and so not in this report: {named}. Evaluate first: "
            f"ucpo evaluate {shell(sources.unevaluated[0])}"
        )
    split = labels.told_apart(sources.seeds["method"].unique().to_list())
    if split:
        said.append(
            f"Runs with different settings are not averaged: {'; '.join(split)}. What differs, "
            f"by their {CONFIG_FILE} or in the evaluation, is part of the name."
        )
    if sources.unknown and len(sources.files) > 1:
        said.append(
            f"No {CONFIG_FILE} beside {_count(len(sources.unknown), 'evaluation')}, which are "
            "taken to have the settings of others of the same method: "
            + ", ".join(map(str, sources.unknown))
            + "."
        )
    return said


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _range(values: pl.Series) -> str:
    low, high = int(values.min()), int(values.max())  # type: ignore[arg-type]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _markdown(
    found: Sequence[str], text: str, tables: Sequence[Sheet], views: Sequence[Figure]
) -> str:
    parts = [f"# {TITLE}", "\n".join(f"- {each}" for each in found), text]
    for task in dict.fromkeys(view.task for view in views):
        parts.append(f"## {task}")
        for view in (view for view in views if view.task == task):
            parts += [
                f"### {view.title}",
                f"![{view.title}](figures/{view.name}.png)",
                view.caption,
            ]
    for sheet in tables:
        parts += [f"## {sheet.title}", markdown(sheet), sheet.note]
    return "\n\n".join(part.strip() for part in parts) + "\n"
