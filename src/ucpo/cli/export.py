"""Take policies elsewhere: other runtimes, and a place to share them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from ucpo.cli.messages import say


@dataclass(frozen=True)
class Export:
    """Write a policy as ONNX, for runtimes without Python (needs ucpo[export])."""

    policy: Positional[str]
    """Run folder, policy file, zoo:TASK or hf:user/name."""
    output: Positional[Path]
    """The file to write; ends in .onnx."""

    def __call__(self) -> None:
        """Export, compare, say how to use it."""
        from ucpo.policies.export import describe, export
        from ucpo.policies.policy import load

        policy = load(self.policy)
        difference = export(policy, self.output)
        say(
            f"{self.output} acts as the policy to {difference:.0e} of the range of an action; "
            + describe(policy.info.cost_names, policy.info.stock_discount)
        )


@dataclass(frozen=True)
class Push:
    """Share a run on the Hugging Face hub, with a card made from it (needs ucpo[hub])."""

    run: Positional[str]
    """Run folder, or zoo:TASK."""
    name: Positional[str]
    """The repository, user/name; made if it does not exist."""
    private: bool = False
    """Make it for yourself alone."""

    def __call__(self) -> None:
        """Push, say where it is."""
        from ucpo.policies import hub, places

        address = hub.push(places.locate(self.run), self.name, private=self.private)
        name = self.name.removeprefix(hub.PREFIX)
        say(f"pushed to {address}. Next: ucpo evaluate {hub.PREFIX}{name}")
