"""What bf16 products change: gradients of the paper's networks, and learning on the demo task.

    python benchmarks/precision.py [--seeds 0 1 2] [--env-steps N]
    python benchmarks/precision.py --products
    python benchmarks/precision.py --updates

Where the processor multiplies bf16, this is what `--precision bf16` does; elsewhere operands of the
forward products are rounded and multiplied in f32, slowly. With `--products`: how long products of
layers take on one thread, there and back, in f32 and with operands rounded, conversions included,
and PyTorch's. With `--updates`: how long whole updates of UCP take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from learner import paper_agent
from torch import Tensor

from ucpo import UCP
from ucpo.envs.registry import make_task
from ucpo.evaluation import evaluate
from ucpo.learners.compiled.passes import of_inputs, of_weights, onward
from ucpo.learners.compiled.registers import PAIRED
from ucpo.learners.compiled.tiles import COLUMNS, NOTHING, panels_of
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
    if PAIRED:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        yield
        torch.set_float32_matmul_precision(before)
        return
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
    ways = ("forward", "gradient of weights", "gradient of inputs")
    heads = ("rows x in x out", *(f"{way}, {kind}" for way in ways for kind in ("f32", "bf16")))
    heads += ("PyTorch's forward, f32", "bf16", "with conversions")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for rows, wide, high in SIZES:
        seen, weight, slope = (
            torch.randn(shape).numpy() for shape in ((rows, wide), (wide, high), (rows, high))
        )
        nothing: Any = np.zeros(COLUMNS * panels_of(max(wide, high)), np.float32)
        said, of_seen, of_weight = map(np.empty_like, (slope, seen, weight))
        taken = []
        for way, *given in (
            (onward, seen, weight, nothing, said, NOTHING),
            (of_weights, seen, slope, nothing, of_weight),
            (of_inputs, slope, weight, nothing, of_seen, NOTHING, of_seen),
        ):
            # In turns, for a processor is not as fast at all times.
            taken += _seconds(*(partial(way, *given, short) for short in (False, PAIRED)))
        tensors = torch.zeros(high), torch.from_numpy(seen), torch.from_numpy(weight)
        short = [tensor.bfloat16() for tensor in tensors]
        taken += _seconds(
            partial(torch.addmm, *tensors),
            partial(torch.addmm, *short),
            partial(_converted, *tensors),
        )
        cells = " | ".join(f"{1e6 * seconds:.1f}" for seconds in taken)
        print(f"| {rows} x {wide} x {high} | {cells} |", flush=True)


def _converted(bias: Tensor, seen: Tensor, weight: Tensor) -> Tensor:
    return torch.addmm(bias.bfloat16(), seen.bfloat16(), weight.bfloat16()).float()


def time_updates() -> None:
    """Print how long updates of UCP take at the paper's size and with the navigation preset."""
    print("| networks | f32 [ms] | bf16 [ms] |\n|---|---|---|")
    for name, quantiles in (("paper", 100), ("navigation", 50)):
        agent = paper_agent(preset=name, quantiles=quantiles)
        ways = [partial(_update, agent, precision) for precision in ("highest", "medium")]
        taken = _seconds(*ways, times=150)
        print(f"| {name} | " + " | ".join(f"{1e3 * seconds:.2f}" for seconds in taken) + " |")


def _update(agent: Any, precision: str) -> None:
    torch.set_float32_matmul_precision(precision)
    agent.update()


def _seconds(*ways: Callable[[], object], times: int = 500) -> list[float]:
    """Medians of each, in turns."""
    taken = []
    for _ in range(times):
        row = []
        for way in ways:
            begin = time.perf_counter()
            way()
            row.append(time.perf_counter() - begin)
        taken.append(row)
    return [float(each) for each in np.median(taken, axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", action="store_true", help="only how long products take")
    parser.add_argument("--updates", action="store_true", help="only how long updates take")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--env-steps", type=int, help="of the demo task; by default its preset's")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.products or options.updates:
        time_products() if options.products else time_updates()
        return
    cosine, difference = gradients()
    print(f"critics' gradient: cosine {cosine:.6f}, relative difference {difference:.1e}")
    print("| products | seed | " + " | ".join(f"return and cost at {b:g}" for b in BUDGETS) + " |")
    print("|---|---|" + "---|" * len(BUDGETS))
    for seed in options.seeds:
        for name, products in (("f32", nullcontext()), ("bf16", rounded())):
            with products:
                precision = "bf16" if PAIRED and name == "bf16" else "f32"
                agent = UCP("Courier-v0", seed=seed, precision=precision)
                agent.learn(options.env_steps, show=False)
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
