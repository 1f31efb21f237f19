"""A table as data, written as Markdown, CSV and LaTeX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import polars as pl

GAP = "-"
"""What stands where there is no run."""

_TEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


@dataclass(frozen=True)
class Sheet:
    """One table."""

    name: str
    """Of its files, without an ending."""
    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """As shown."""
    data: pl.DataFrame
    """The same numbers unrounded, in long form, for the CSV file."""


def number(value: float | int | None) -> str:
    """A number with three digits that count, at least one of them after the point; or a gap."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return GAP
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{_decimals(value)}f}"


def interval(mean: float | None, half: float | None) -> str:
    """``25.4 ± 0.1``; without the interval where one seed says nothing about it.

    Small numbers keep more digits: a share of 0.251 ± 0.012 is not 0.3 ± 0.0.
    """
    if mean is None or half is None or math.isnan(half):
        return number(mean)
    decimals = 1 if half >= 0.1 or half == 0.0 else 2 if half >= 0.01 else 3
    decimals = max(decimals, _decimals(max(abs(mean), half)))
    return f"{mean:,.{decimals}f} ± {half:,.{decimals}f}"


def published(mean: float | None, half: float | None) -> str:
    """The same as somebody else wrote it: with their digits, and no more."""
    return GAP if mean is None or half is None else f"{mean:,} ± {half:,}"


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 10.0 else 2 if abs(value) >= 1.0 else 3


def markdown(sheet: Sheet) -> str:
    """The table in Markdown."""
    lines = [sheet.header, ["---"] * len(sheet.header), *sheet.rows]
    body = "\n".join("| " + " | ".join(map(_markdown_cell, line)) + " |" for line in lines)
    return f"{body}\n"


def latex(sheet: Sheet) -> str:
    """The table in LaTeX, for the package booktabs."""
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"% {tex(sheet.title)}",
        rf"\begin{{tabular}}{{{'l' * _labels(sheet)}{'r' * (len(sheet.header) - _labels(sheet))}}}",
        r"\toprule",
        " & ".join(map(tex, sheet.header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(tex, row)) + r" \\" for row in sheet.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def tex(text: str) -> str:
    """A text that LaTeX sets as it stands."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def write(sheet: Sheet, folder: Path) -> None:
    """Write a table in all three formats."""
    (folder / f"{sheet.name}.md").write_text(
        f"## {sheet.title}\n\n{markdown(sheet)}\n{sheet.note}\n", encoding="utf-8"
    )
    (folder / f"{sheet.name}.tex").write_text(latex(sheet), encoding="utf-8")
    sheet.data.write_csv(folder / f"{sheet.name}.csv")


def _labels(sheet: Sheet) -> int:
    """Columns of text at the left."""
    named = ("task", "method", "budget", "cost", "what", "against")
    return next((i for i, head in enumerate(sheet.header) if head not in named), len(sheet.header))


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
