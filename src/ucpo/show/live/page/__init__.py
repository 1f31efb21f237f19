"""The page as one document: nothing else is fetched."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources


def document(nonce: str, title: str) -> str:
    """The whole page; `nonce` marks the only script that may run."""
    return _assembled().replace("{{nonce}}", nonce).replace("{{title}}", escape(title))


@cache
def _assembled() -> str:
    """Everything but what differs; read once, so that it fits the server it came with."""
    here = resources.files(__name__)
    shared = resources.files("ucpo.reports") / "page"
    styles = [shared / "charts.css", here / "live.css"]
    scripts = [shared / "charts.js", here / "picture.js", here / "panel.js", here / "live.js"]
    text = (here / "live.html").read_text(encoding="utf-8")
    for name, files in (("style", styles), ("script", scripts)):
        content = "\n".join(file.read_text(encoding="utf-8") for file in files)
        text = text.replace("{{" + name + "}}", content)
    return text
