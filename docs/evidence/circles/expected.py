"""What critics expect on the way, and what comes: python expected.py RUN BUDGET."""

import sys
from pathlib import Path

import numpy as np
import torch

import ucpo
from ucpo.envs.registry import make_task
from ucpo.evaluation.episodes import Job, play
from ucpo.learners.networks import Critics
from ucpo.policies.critics import load_critics

EPISODES = 64


class Watch:
    """Costs of every step, the stock before it, and the critics' quantiles of the costs to come."""

    def __init__(self, critics):
        self.critics = critics
        self.costs, self.stock, self.quantiles = [], [], []

    @torch.no_grad()
    def see(self, moment):
        """Note one step of all episodes."""
        inputs = (moment.obs, moment.stock, moment.actions)
        answer = self.critics(*(torch.as_tensor(each, dtype=torch.float32) for each in inputs))
        self.quantiles.append(answer[Critics.REWARD].numpy())
        self.costs.append(moment.step.costs[:, 0].copy())
        self.stock.append(moment.stock[:, :1].copy())
        return []


run, budget = Path(sys.argv[1]), float(sys.argv[2])
policy = ucpo.load(run)
watch = Watch(load_critics(run, policy.info))
jobs = [Job(budgets=(budget,), seed=10_000 + i) for i in range(EPISODES)]
for _ in play(policy, make_task(policy.info.task, EPISODES), jobs, {"watch": watch}):
    pass
costs, stock, quantiles = (np.stack(each) for each in (watch.costs, watch.stock, watch.quantiles))
excess = (stock + quantiles).clip(min=0.0).mean((1, 2))
to_come = costs[::-1].cumsum(0)[::-1].mean(1)
lines = [f"excess {(costs.sum(0) - budget).clip(min=0.0).mean():.2f}"] + [
    f"{age:4}: excess {excess[age]:.2f}; cost {quantiles[age].mean():.1f}, "
    f"to come {to_come[age]:.1f}"
    for age in range(0, len(costs), 100)
]
sys.stdout.write("\n".join(lines) + "\n")
