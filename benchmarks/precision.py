"""What bf16 products change: gradients of the paper's networks, and learning on the demo task.

    python benchmarks/precision.py [--seeds 0 1 2] [--env-steps N]
    python benchmarks/precision.py --products

Rounds the operands of the forward products of the learner to bf16 and adds up in f32: what
`--precision bf16` does on a GPU, done slowly on any processor. With `--products`: how long products
of layers take on one thread, by our tiles in f32 and by PyTorch in f32 and bf16. Weights and what
layers say are new in every update, so what counts of bf16 is the last column, in which operands are
converted and the result is converted back.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import torch
from learner import paper_agent
from torch import Tensor

from ucpo import UCP
from ucpo.envs.registry import make_task
from ucpo.evaluation import evaluate
from ucpo.learners.compiled.kernels import ahead
from ucpo.learners.networks import Layers
from ucpo.learners.quantiles import quantile_loss

BUDGETS = (0.0, 5.0, 10.0, 15.0)
SIZES = (
    (64, 60, 64),
    (64, 64, 64),
    (256, 64, 128),
    (256, 128, 128),
    (256, 256, 256),
    (1024, 512, 512),
)


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


def time_products() -> None:
    """Print how long products take, in microseconds."""
    heads = ("rows x in x out", "ours, f32", "PyTorch, f32", "PyTorch, bf16", "with conversions")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for rows, wide, high in SIZES:
        layer = Layers(1, [wide, high], torch.Generator())
        ((weight, bias),) = layer.stack(layer.flat.detach()[0])
        seen = torch.randn(rows, wide)
        short = bias.bfloat16(), seen.bfloat16(), weight.bfloat16()
        ways: list[Callable[[], object]] = [
            lambda layer=layer, seen=seen: ahead(layer, seen[None]),  # type: ignore[misc]
            partial(torch.addmm, bias, seen, weight),
            partial(torch.addmm, *short),
            partial(_converted, bias, seen, weight),
        ]
        taken = [f"{1e6 * _seconds(way):.1f}" for way in ways]
        print(f"| {rows} x {wide} x {high} | " + " | ".join(taken) + " |", flush=True)


def _converted(bias: Tensor, seen: Tensor, weight: Tensor) -> Tensor:
    return torch.addmm(bias.bfloat16(), seen.bfloat16(), weight.bfloat16()).float()


def _seconds(way: Callable[[], object]) -> float:
    taken = []
    for _ in range(500):
        begin = time.perf_counter()
        way()
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", action="store_true", help="only how long products take")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--env-steps", type=int, help="of the demo task; by default its preset's")
    options = parser.parse_args()
    if options.products:
        torch.set_num_threads(1)
        time_products()
        return
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
