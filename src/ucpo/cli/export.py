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
