"""Pages of the examples, made from examples/*.py and *.ipynb."""

from __future__ import annotations

import ast
import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"


def files() -> list[Path]:
    """Notebooks first, then scripts."""
    return [*sorted(FOLDER.glob("*.ipynb")), *sorted(FOLDER.glob("*.py"))]


def title(path: Path) -> str:
    """A file's name as words."""
    return path.stem.replace("_", " ").capitalize()


def page(path: Path) -> str:
    """An example as a page: what it says about itself, and its code."""
    text = path.read_text(encoding="utf-8")
    body = _notebook(text) if path.suffix == ".ipynb" else _script(text)
    return f"# {title(path)}\n\n*`examples/{path.name}`*\n\n{body}\n"


def _script(text: str) -> str:
    tree = ast.parse(text)
    first = tree.body[0]
    said = (ast.get_docstring(tree) or "").replace("\n    python", "\n\n    python")
    code = "\n".join(text.splitlines()[first.end_lineno or 0 :]).strip()
    return f"{said}\n\n```python\n{code}\n```"


def _notebook(text: str) -> str:
    cells = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            cells.append(f"```python\n{source}\n```")
        else:
            cells.append(source.removeprefix("# ") if source.startswith("# ") else source)
    return "\n\n".join(cells)
