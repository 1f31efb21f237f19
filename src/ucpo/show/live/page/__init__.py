"""The page as one document: nothing else is fetched."""

from __future__ import annotations

from importlib import resources

PARTS = ("live.css", "picture.js", "panel.js", "live.js")


def document(nonce: str, title: str) -> str:
    """The whole page; `nonce` marks the only script that may run."""
    from html import escape

    here = resources.files(__name__)
    shared = resources.files("ucpo.reports") / "page"
    styles = [shared / "charts.css", here / "live.css"]
    scripts = [shared / "charts.js", here / "picture.js", here / "panel.js", here / "live.js"]
    text = (here / "live.html").read_text(encoding="utf-8")
    for name, value in (
        ("nonce", nonce),
        ("title", escape(title)),
        ("style", "\n".join(file.read_text(encoding="utf-8") for file in styles)),
        ("script", "\n".join(file.read_text(encoding="utf-8") for file in scripts)),
    ):
        text = text.replace("{{" + name + "}}", value)
    return text
