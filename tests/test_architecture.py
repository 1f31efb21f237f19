"""Who may import whom. The arrows of docs/architecture.md point one way only."""

import ast
from pathlib import Path

import pytest

import ucpo

SOURCE = Path(ucpo.__file__).parent
NO_LEARNING = {"torch", "ucpo.learners", "ucpo.policies", "ucpo.runs", "ucpo.config"}
FORBIDDEN = {
    "problem.py": NO_LEARNING,
    "stock.py": NO_LEARNING,
    "envs": NO_LEARNING,
    "learners": {"ucpo.runs", "ucpo.config", "ucpo.evaluation"},
    "stats": NO_LEARNING,
    "reports": {"torch", "ucpo.learners", "ucpo.runs", "ucpo.config"},
    "evaluation": {"ucpo.runs", "ucpo.config"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("room", FORBIDDEN)
def test_imports_point_one_way(room):
    place = SOURCE / room
    for path in [place] if place.is_file() else place.rglob("*.py"):
        for name in imports(path):
            for other in FORBIDDEN[room]:
                assert not f"{name}.".startswith(f"{other}."), f"{path.name} imports {name}"


LEARNERS = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in (SOURCE / "learners").rglob("*.py")
} - {
    f"ucpo.learners.{name}"
    for name in ("__init__", "actors", "interface", "networks", "normaliser", "trunk")
}


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_nobody_outside_learners_and_config_knows_a_particular_learner(path):
    room = path.relative_to(SOURCE).parts[0]
    if room not in ("learners", "config"):
        assert not LEARNERS & set(imports(path))


def test_the_house_stays_readable():
    assert len(list(SOURCE.glob("*.py"))) <= 8
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 400, f"{path.name} holds more than one idea"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 60, f"{path.name}: {node.name} has {lines} lines"


def test_every_public_name_is_there():
    for name in ucpo.__all__:
        assert getattr(ucpo, name) is not None
