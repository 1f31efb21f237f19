"""The documentation builds, says what the package does, and its snippets run as they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ucpo.cli.main import main
from ucpo.config.files import method_names, read_method
from ucpo.envs.navigation.names import NAMES
from ucpo.envs.navigation.tasks import arena
from ucpo.envs.velocity.runners import RUNNERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PAGES = [
    README,
    DOCS / "getting-started.md",
    DOCS / "deploying.md",
    DOCS / "exact.md",
    DOCS / "tasks.md",
    DOCS / "velocity.md",
    DOCS / "methods" / "index.md",
    *sorted((DOCS / "guides").glob("*.md")),
]
NOT_RUN = "<!-- not run: "  # before a block that needs what a test does not have, with the reason


def blocks(page):
    """Language and text of the fenced blocks of a page that are to be run, in order.

    Python always, unless a comment says why not; commands where a comment asks for it.
    """
    text = re.sub(r"\n\n+(?=```)", "\n", page.read_text(encoding="utf-8"))
    fenced = re.finditer(r"([^\n]*)\n```(\w+)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    for before, language, block in (found.groups() for found in fenced):
        asked = before == "<!-- run -->" if language == "sh" else not before.startswith(NOT_RUN)
        if language in ("python", "sh") and asked:
            yield language, block


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def site(monkeypatch):
    """The modules that make pages, as MkDocs sees them."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    for name in ("method_pages", "sensor_pages", "example_pages"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run_as_they_stand_one_after_the_other(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    known = {"__name__": "snippets"}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, name_of(page), "exec"), known)
            continue
        for command in block.splitlines():
            program, *words = shlex.split(command, comments=True)
            assert program == "ucpo"
            main(words)
    if page == README:  # the columns; numbers differ between processors
        columns = next(line for line in page.read_text().splitlines() if "┃ return ┃" in line)
        assert columns in capsys.readouterr().out


def test_the_site_builds_without_a_warning_or_a_network(tmp_path):
    pytest.importorskip(
        "material", reason="mkdocs-material is not installed: pip install '.[docs]'"
    )
    pytest.importorskip("mkdocstrings")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")}
    for name in method_names():
        assert (tmp_path / "site" / "methods" / f"{name}.html") in pages
    for path, page in pages.items():
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]+"', page)
        assert not fetched, f"{path.name} needs a network: {fetched[0]}"
        assert "$$" not in page, f"an equation of {path.name} was not drawn"


@pytest.mark.parametrize("name", method_names())
def test_every_method_has_a_page_with_its_parts(site, name):
    import method_pages

    page = method_pages.page(name)
    assert read_method(name)[0] in page
    for part, choice in method_pages.composition(name).items():
        assert f"| {part} | `{choice}` |" in page
        assert choice in method_pages.PARTS.get(part, {}), (
            f"{name}.toml has {part} = {choice!r}, which docs/site/parts.toml does not describe: "
            f"add [{part}.{choice}] with what it does, its equation and its reference"
        )
    assert f"[{name}]({name}.md)" in method_pages.table()


def test_every_task_has_a_page_with_a_picture_of_its_own(site):
    import sensor_pages

    names = sensor_pages.names()
    assert len(names) == 22
    for name in names:
        page = sensor_pages.page(name)
        assert f"](../pictures/{name}.png)" in page
        assert (ROOT / "docs" / "pictures" / f"{name}.png").is_file()
        assert "| entries | sensor | meaning |" in page
        assert f"tasks/{name}.md" in sensor_pages.lead()


def test_every_number_of_an_observation_is_explained(site):
    import sensor_pages

    for name in NAMES:
        place = arena(name)
        assert (
            sum(size for _, size, _ in sensor_pages.navigation_blocks(place))
            == place.observation_size
        )
    for name, runner in RUNNERS.items():
        assert (
            sum(size for _, size, _ in sensor_pages.velocity_blocks(name))
            == runner.observation_size
        )


def test_the_readme_repeats_the_results_it_links_to():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (DOCS / "results.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| Safety")
    ]
    told = set()
    for task, method, _, budget, *numbers in (row for row in rows if len(row) == 10):
        ours, cost, exceeded, _, paper, paper_cost = numbers
        name = task if method == "ucp" else f"{task} ({method.removeprefix('ucp, ')})"
        if budget == "25":
            told.add(f"| {name} | {ours} | {paper} | {cost} | {paper_cost} | {exceeded} |")
    readme = README.read_text(encoding="utf-8").splitlines()
    assert len(told) > 5
    assert told == {line for line in readme if line.startswith("| Safety")}


def test_the_readme_keeps_its_promises():
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    assert max(map(len, text.splitlines())) <= 120
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_no_output(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # of the kernel, whose folder is another
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
