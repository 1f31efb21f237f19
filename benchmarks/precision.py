"""What bf16 products change: gradients of the paper's networks, and learning on the demo task.

    python benchmarks/precision.py [--seeds 0 1 2] [--env-steps N]

Rounds the operands of the forward products of the learner to bf16 and adds up in f32: what
`--precision bf16` does on a GPU, done slowly on any processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from learner import paper_agent
from torch import Tensor

from ucpo.envs.registry import make_task
from ucpo.evaluation import evaluate
from ucpo.learners.networks import Layers
from ucpo.learners.quantiles import quantile_loss
from ucpo.runs.run import UCP

BUDGETS = (0.0, 5.0, 10.0, 15.0)


@contextmanager
def rounded() -> Iterator[None]:
    """Products whose operands are rounded to bf16; addition and result stay f32."""
    exact, compiled = torch.baddbmm, Layers.compiled

    def short(x: Tensor) -> Tensor:
        return x.bfloat16().float()

    torch.baddbmm = lambda bias, a, b: exact(bias, short(a), short(b))
    Layers.compiled = False
    try:
        yield
    finally:
        torch.baddbmm, Layers.compiled = exact, compiled


def gradients() -> tuple[float, float]:
    """Of the critics' loss at paper size: cosine between the two gradients, relative difference."""
    agent = paper_agent(fill=20_000)
    batch = agent.replay.sample(256, np.random.default_rng(0))
    targets = torch.randn(3, 256, 100)
    found = []
    for products in (nullcontext(), rounded()):
        with products:
            quantiles = agent.critics(batch.obs, batch.stock, batch.action)
            (gradient,) = torch.autograd.grad(
                quantile_loss(quantiles, targets).sum(), [agent.critics.body.layers.flat]
            )
        found.append(gradient.flatten().double())
    exact, other = found
    cosine = torch.nn.functional.cosine_similarity(exact, other, dim=0).item()
    return cosine, ((other - exact).norm() / exact.norm()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--env-steps", type=int, help="of the demo task; by default its preset's")
    options = parser.parse_args()
    cosine, difference = gradients()
    print(f"critics' gradient: cosine {cosine:.6f}, relative difference {difference:.1e}")
    print("| products | seed | " + " | ".join(f"return and cost at {b:g}" for b in BUDGETS) + " |")
    print("|---|---|" + "---|" * len(BUDGETS))
    for seed in options.seeds:
        for name, products in (("f32", nullcontext()), ("bf16", rounded())):
            with products:
                agent = UCP("Courier-v0", seed=seed).learn(options.env_steps, show=False)
            rows = evaluate(agent.policy(), make_task("Courier-v0", 100), BUDGETS, 1000)
            cells = []
            for budget in BUDGETS:
                at = rows.filter(rows["budget_near_misses"] == budget)
                cells.append(
                    f"{at['return'].to_numpy().mean():.2f}, "
                    f"{at['cost_near_misses'].to_numpy().mean():.2f}"
                )
            print(f"| {name} | {seed} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
