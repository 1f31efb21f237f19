"""Completion of commands and options by the Tab key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class Completion:
    """Print what lets a shell complete ucpo's commands and options by Tab.

    bash: eval "$(ucpo completion bash)" in ~/.bashrc. zsh: ucpo completion zsh > a file _ucpo in a
    folder of $fpath.
    """

    shell: Positional[Literal["bash", "zsh", "tcsh"]]
    """The shell to print it for."""

    def __call__(self) -> None:
        """Print it."""
        from ucpo.cli.main import main

        main(["--tyro-print-completion", self.shell])
