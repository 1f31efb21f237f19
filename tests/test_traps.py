"""docs/traps.md says which test springs which trap; the tests must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_test_that_is_named_exists():
    page = (ROOT / "docs" / "traps.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert len(named) > 70
    for file, name in named:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in text, f"{file} has no {name}, which docs/traps.md names"


def test_every_row_names_a_test():
    page = (ROOT / "docs" / "traps.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and "---" not in line]
    without = [row for row in rows if "::test_" not in row and not row.rstrip().endswith("test |")]
    assert not without
