"""The report as one page that needs nothing else: no network, no library."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib import resources
from typing import Any

from ucpo.reports.charts import Figure
from ucpo.reports.sheets import Sheet

_TEXT = ("task", "what", "method", "against", "budget", "budgets", "cost")  # columns of words


def page(
    title: str,
    findings: Sequence[str],
    summary: str,
    sheets: Sequence[Sheet],
    figures: Sequence[Figure],
) -> str:
    """The whole page: what was found, figures by task, then tables."""
    tasks = list(dict.fromkeys(figure.task for figure in figures))
    links = [(f"task-{i}", task) for i, task in enumerate(tasks)]
    links += [(f"table-{sheet.name}", sheet.title) for sheet in sheets]
    sections = []
    for i, task in enumerate(tasks):
        mine = [_figure(figure) for figure in figures if figure.task == task]
        sections.append(f'<h2 id="task-{i}">{escape(task)}</h2>\n' + "\n".join(mine))
    values = {
        "title": escape(title),
        "findings": _list(findings),
        "summary": escape(summary),
        "contents": " ".join(f'<a href="#{to}">{escape(text)}</a>' for to, text in links),
        "tables": "\n".join(map(_table, sheets)),
        "figures": "\n".join(sections),
        "style": _asset("charts.css") + _asset("page.css"),
        "script": _asset("charts.js") + _asset("page.js"),
        "data": data([asdict(figure) for figure in figures]),
    }
    text = _asset("page.html")
    head, *rest = text.split("{{")
    for part in rest:  # once through: what is put in is not searched again
        name, _, tail = part.partition("}}")
        head += values[name] + tail
    return head


def data(value: Any) -> str:
    """JSON that can stand in a page: nothing in it ends the script or begins a comment."""
    text = json.dumps(finite(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(value: Any) -> Any:
    """Numbers JSON knows, with the seven digits a screen can show; others become null."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def _list(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="summary">{items}</ul>' if items else ""


def _figure(figure: Figure) -> str:
    return (
        f'<section id="{escape(figure.name)}"><h3>{escape(figure.title)}</h3>'
        f'<p class="note">{escape(figure.caption)}</p></section>'
    )


def _table(sheet: Sheet) -> str:
    classes = [
        " ".join((["text"] if head in _TEXT else []) + (["published"] if _published(head) else []))
        for head in sheet.header
    ]
    head = "".join(_cell("th", *pair) for pair in zip(sheet.header, classes, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", *pair) for pair in zip(row, classes, strict=True)) + "</tr>"
        for row in sheet.rows
    )
    return (
        f'<h2 id="table-{sheet.name}">{escape(sheet.title)}</h2>\n'
        f'<p class="note">{escape(sheet.note)}</p>\n<div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _published(head: str) -> bool:
    return head.startswith("paper's") or head.endswith("(paper)")


def _cell(tag: str, text: str, kind: str) -> str:
    return (
        f'<{tag} class="{kind}">{escape(text)}</{tag}>'
        if kind
        else f"<{tag}>{escape(text)}</{tag}>"
    )


def _asset(name: str) -> str:
    return (resources.files("ucpo.reports") / "page" / name).read_text(encoding="utf-8")
