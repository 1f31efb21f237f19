"""What MkDocs does not do by itself: pages made from the package, equations without a network.

Methods, tasks and examples have pages made from what they are, so that a page cannot say something
else than the package does. Equations are LaTeX between dollars and become MathML, which browsers
draw without a script. Links into the repository lead to the page made from the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import example_pages
import method_pages
import sensor_pages
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
COPIED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give every method, task and example its place in the navigation."""
    nav: Any = config.nav
    sections = {title: place for entry in nav for title, place in entry.items()}
    sections["Methods"].extend({name: f"methods/{name}.md"} for name in method_pages.names())
    sections["Tasks"].extend({name: f"tasks/{name}.md"} for name in sensor_pages.names())
    sections["Examples"].extend(
        {example_pages.title(path): f"examples/{path.stem}.md"} for path in example_pages.files()
    )
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {f"methods/{name}.md": method_pages.page(name) for name in method_pages.names()}
    made |= {f"examples/{path.stem}.md": example_pages.page(path) for path in example_pages.files()}
    made |= {f"tasks/{name}.md": sensor_pages.page(name) for name in sensor_pages.names()}
    made["sensors.md"] = sensor_pages.lead()
    for page, source in COPIED.items():
        made[page] = _inside_docs((ROOT / source).read_text(encoding="utf-8"))
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the table of methods, lead links to pages, draw equations."""
    markdown = markdown.replace("<!-- table of methods -->", method_pages.table())
    markdown = re.sub(r"\]\(((?:\.\./)+)examples/(\w+)\.(?:py|ipynb)\)", _example, markdown)
    markdown = markdown.replace("](../CONTRIBUTING.md)", "](contributing.md)")
    markdown = re.sub(r"\[([^]]+)\]\(evidence/[^)]*\)", r"\1", markdown)  # not part of the site
    return _equations(markdown)


def _inside_docs(text: str) -> str:
    """A file of the repository's root as a page: links to docs/ lose it, files become names."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^]]+)\]\((?:src|tests|examples)/[^)]*\)", r"`\1`", text)


def _example(link: re.Match[str]) -> str:
    up = link[1].removeprefix("../")  # docs/ itself is the root of the site
    return f"]({up}examples/{link[2]}.md)"


def _equations(markdown: str) -> str:
    """Equations between double dollars on lines of their own, and between `$` and `$` in a line."""
    shown = re.sub(
        r"^\$\$\n(.+?)\n\$\$$",
        lambda found: convert(found[1], display="block"),
        markdown,
        flags=re.MULTILINE | re.DOTALL,
    )
    return re.sub(r"\$`(.+?)`\$", lambda found: convert(found[1]), shown)
