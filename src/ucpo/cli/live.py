"""The live page."""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from ucpo.cli.messages import refuse_negative, say
from ucpo.errors import UsageError


@dataclass(frozen=True)
class Live:
    """Play a policy on a page in the browser, where the budget is a slider."""

    policies: Positional[tuple[str, ...]]
    """Run folder, policy file, zoo:TASK or hf:user/name; several of one task play side by side.
    Of a run under way the curves are shown too, and always its newest policy."""
    budget: tuple[str, ...] = ()
    """Budgets to begin with, side by side; each holds for every cost, or hazards=5,vases=2 names
    them. By default the middle of the range trained for."""
    seed: int = 0
    """Seed of the first episode."""
    task: str | None = None
    """Another task than the one trained on; also to say that the module of my_package:MyEnv-v0 may
    be imported, which a policy file alone must not decide."""
    network: str | None = None
    """my_module:my_network, where that made the policies' networks; imported only if said here."""
    port: int | None = None
    """Port to listen at; by default 8760, or any that is free."""
    host: str = "127.0.0.1"
    """Address to listen at. The default is for this machine alone; with 0.0.0.0 whoever knows the
    address with its token can look and turn, from anywhere, over a connection nobody encrypts."""
    browser: bool = True
    """Open the page; with --no-browser its address is only printed."""

    def __call__(self) -> None:
        """Serve until stopped."""
        refuse_negative(self.seed)
        if not self.policies:
            raise UsageError("which policy? e.g. ucpo live zoo:SafetyPointGoal1-v0")
        try:
            from ucpo.show.live.serving import serve
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "websockets"):
                raise
            raise UsageError("the live page needs a server: pip install 'ucpo[live]'") from None
        from ucpo.evaluation.runs import own_network
        from ucpo.show.live.sources import Source, tell_apart
        from ucpo.show.live.stage import Stage

        sources = [Source(given, self.task, own_network(self.network)) for given in self.policies]
        tasks = {source.task for source in sources}
        if len(tasks) > 1:
            raise UsageError(f"only policies of one task play side by side, not {', '.join(tasks)}")
        tell_apart(sources)
        ready = [source for source in sources if source.ready]
        if self.budget and not ready:
            raise UsageError("there is no policy yet that has a budget; leave out --budget")
        budgets = [ready[0].policy.info.read_budget(text) for text in self.budget]
        for one in budgets:
            for source in ready:
                source.policy.budgets(one)  # refuses what was not trained for
        serve(Stage(sources, budgets, self.seed), self.host, self.port, self.browser, say)
