"""Where policies are: in run folders, in the zoo, on the hub."""

from __future__ import annotations

from pathlib import Path

from ucpo.policies import hub, zoo


def locate(path: str | Path) -> Path:
    """The folder or file that ``zoo:NAME`` or ``hf:user/name`` stands for; other paths as given."""
    return hub.fetch(path) if hub.is_remote(path) else zoo.locate(path)


def own_file(path: str | Path, name: str) -> Path | None:
    """Where what is found out about a policy goes that is not ours to add to; else None."""
    return hub.own_file(path, name) if hub.is_remote(path) else zoo.own_file(path, name)
