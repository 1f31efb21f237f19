"""How long an update takes, beside the same update written straightforwardly and the matrix floor.

    python benchmarks/learner.py [--json FILE] [--rounds 60] [--no-compile] [--no-loop]
    python benchmarks/learner.py --baselines [--processor-time]

All contestants take turns in one process, so that whatever else the machine does hits them alike;
times are medians of elapsed milliseconds. On a busy machine long turns are interrupted and short
ones are not, so that their ratio says little; processor time leaves the interruptions out. The
floor is the time the update's matrix products alone would take at the rate that the same thread
reaches on 256 x 256 x 256 in the same turns, the faster of PyTorch's product and ours.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from straightforward import Straightforward, distance

from ucpo.config.assembly import make_grid, make_learner
from ucpo.config.files import resolve
from ucpo.config.options import RunConfig
from ucpo.envs.interface import TaskSpec
from ucpo.learners.compiled.kernels import ahead
from ucpo.learners.networks import Layers
from ucpo.learners.quantiles import quantile_loss
from ucpo.learners.ucp import UCP
from ucpo.runs.collection import Here
from ucpo.runs.loop import train
from ucpo.runs.run import Run
from ucpo.runs.sinks import Journal

OBS, ACTION = 60, 2
TASKS = ("SafetyPointGoal1-v0", "SafetyHopperVelocity-v1")
OMNISAFE = "38-44"
"""Environment steps per second, one update each, of its SACLag and TD3Lag on SafetyPointGoal1-v0,
measured earlier: `omnisafe train --algo SACLag --env-id SafetyPointGoal1-v0` says it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--rounds", type=int, default=60, help="turns of each contestant")
    parser.add_argument("--iterations", type=int, default=400, help="of the training loop")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-loop", action="store_true", help="leave the training loop out")
    parser.add_argument("--baselines", action="store_true", help="updates of SAC and TD3 alone")
    parser.add_argument(
        "--processor-time", action="store_true", help="instead of elapsed time, for busy machines"
    )
    options = parser.parse_args()
    if options.processor_time:
        turns.__kwdefaults__["clock"] = time.process_time
    results: dict[str, Any] = {"machine": machine()}
    print(" · ".join(f"{key} {value}" for key, value in results["machine"].items()))

    if options.baselines:
        torch.set_num_threads(1)
        baselines(options.rounds)
        return
    results["update"] = updates(options)
    torch.set_num_threads(1)
    results["baselines"] = baselines(options.rounds)
    results["growth"] = growth(max(options.rounds // 3, 5))
    results["replay"] = replay()
    if not options.no_loop:
        results["loop"] = [loop(task, options.iterations) for task in TASKS]
        results["loop"] += [
            loop(TASKS[0], options.iterations, method, preset, budget="25")
            for method, preset in (
                ("sac-lag", "auto"),
                ("sac-lag", "omnisafe-offpolicy-navigation"),
                ("td3-lag", "omnisafe-offpolicy-navigation"),
            )
        ]
        results["loop"].append(loop(TASKS[0], options.iterations, preset="auto"))
        table("the training loop, one thread", results["loop"])
        results["side by side"] = side_by_side(options.iterations)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of this benchmark: {peak:,.0f} MiB")
    results["peak_memory_mib"] = peak
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


# --- One update ---


def updates(options: argparse.Namespace) -> list[dict[str, float]]:
    agent = paper_agent()
    agreement = check(paper_agent(fill=2_000))
    print(
        f"largest difference of weights after 5 updates of ours and the eager one: {agreement:.1e}"
    )
    batch = agent.replay.sample(agent.settings.batch, np.random.default_rng(0))
    noise = (torch.randn(256, ACTION), torch.randn(256, ACTION))
    eager = Straightforward(agent)
    contestants: dict[str, Callable[[], object]] = {
        "ours": agent.update,
        "eager": lambda: eager.update(batch, noise),
    }
    if not options.no_compile:
        compiled = Straightforward(agent, compiled=True)
        begin = time.perf_counter()
        compiled.update(batch, noise)
        print(f"torch.compile took {time.perf_counter() - begin:.0f} s")
        contestants["compiled"] = lambda: compiled.update(batch, noise)
    contestants |= products()
    short = paper_agent(preset="navigation", quantiles=50)
    contestants["ours, navigation"] = short.update

    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        times = turns(contestants, options.rounds)
        rate = fastest(times)
        floor, short_floor = matrix_flops() / rate, matrix_flops(quantiles=50, hidden=128) / rate
        names = [name for name in contestants if "product" not in name]
        row = {"threads": threads, **{name: times[name] for name in names}}
        row |= {"floor": floor, "ours/eager": row["ours"] / row["eager"]}
        if "compiled" in row:
            row["ours/compiled"] = row["ours"] / row["compiled"]
        row |= {"ours/floor": row["ours"] / floor}
        rows.append(row | {"navigation/floor": row["ours, navigation"] / short_floor})
    table(f"one update, {matrix_flops() / 1e9:.2f} GFLOP of products [ms]", rows)
    return rows


def products() -> dict[str, Callable[[], object]]:
    """Ten products of 256 x 256 x 256 each, PyTorch's and ours."""
    square, layer = torch.randn(256, 256), Layers(1, [256, 256], torch.Generator())
    return {
        "product": lambda: [square @ square for _ in range(10)],
        "our product": lambda: [ahead(layer, square[None]) for _ in range(10)],
    }


def fastest(times: dict[str, float]) -> float:
    """Floating-point operations per millisecond of the faster one."""
    return 10 * 2 * 256**3 / min(times[name] for name in ("product", "our product"))


def check(agent: UCP) -> float:
    """Both updates from the same weights with the same batches and noise."""
    baseline = Straightforward(agent)
    for _ in range(5):
        noise_state, choice_state = agent._noise.get_state(), agent._choice.bit_generator.state
        batch = agent.replay.sample(agent.settings.batch, agent._choice)
        shape = (agent.settings.batch, ACTION)
        noise = tuple(torch.randn(shape, generator=agent._noise) for _ in range(2))
        agent._noise.set_state(noise_state)
        agent._choice.bit_generator.state = choice_state
        baseline.update(batch, noise)
        agent.update()
    return distance(agent, baseline)


def matrix_flops(
    batch: int = 256, quantiles: int = 100, costs: int = 1, hidden: int = 256
) -> float:
    """Of the products an update asks for: forward, gradient of weights, gradient of inputs."""
    layers = [(OBS + costs + ACTION) * hidden, hidden * hidden, hidden * quantiles]
    actor = [(OBS + costs) * hidden, hidden * hidden, hidden * 2 * ACTION]
    critics = (2 + costs) * np.array(layers)
    targets = sum(actor) + critics.sum()
    learning = 2 * critics.sum() + critics[1:].sum()
    acting = 2 * sum(actor) + sum(actor[1:]) + 2 * critics.sum()
    return float(2 * batch * (targets + learning + acting))


def baselines(rounds: int) -> list[dict[str, Any]]:
    """SAC and TD3 as OmniSafe runs them and as we do: time of an update over its matrix floor."""
    agents = {
        f"{method}, {preset}": paper_agent(method=method, preset=f"{preset}-offpolicy-navigation")
        for method in ("sac-lag", "td3-lag")
        for preset in ("swift", "omnisafe")
    }
    # Two updates each: with a delay, every other one leaves the actor out.
    contestants: dict[str, Callable[[], object]] = {
        name: lambda agent=agent: (agent.update(), agent.update()) for name, agent in agents.items()
    }
    times = turns(contestants | products(), rounds)
    rows = []
    for name, agent in agents.items():
        hidden = agent.critics.body.layers.sizes[1]
        another = "td3" in name and "omnisafe" in name
        floor = baseline_flops(agent.settings.delay, another, hidden=hidden) / fastest(times)
        update = times[name] / 2
        row = {"learner": name, "update": update, "floor": floor, "ratio": update / floor}
        rows.append(row | {"updates/s, at most": 1e3 / update, "OmniSafe's env steps/s": OMNISAFE})
    table("one update of SAC and TD3, one thread [ms]", rows)
    return rows


def baseline_flops(delay: int, another_actor: bool, batch: int = 256, hidden: int = 256) -> float:
    """Of the products an update asks for on average, with scalar critics and one cost.

    Args:
        delay: Updates for each of the actor.
        another_actor: Whether targets of costs count on the action of another network.
        batch: Transitions.
        hidden: Width of both hidden layers.
    """
    layers = [(OBS + ACTION) * hidden, hidden * hidden, hidden]
    actor = [OBS * hidden, hidden * hidden, hidden * 2 * ACTION]
    critics = 3 * np.array(layers)
    targets = (1 + another_actor) * sum(actor) + critics.sum()
    learning = 2 * critics.sum() + critics[1:].sum()
    acting = 2 * sum(actor) + sum(actor[1:]) + 2 * critics.sum()
    return float(2 * batch * (targets + learning + acting / delay))


def growth(rounds: int) -> dict[str, list[dict[str, float]]]:
    """How the time grows with quantiles, batch and costs, and the part beyond the products."""
    found: dict[str, list[dict[str, float]]] = {}
    for name, values in (
        ("quantiles", (25, 50, 100, 200, 400)),
        ("batch", (64, 128, 256, 512, 1024)),
        ("costs", (1, 2, 3, 4)),
    ):
        agents = {value: paper_agent(fill=20_000, **{name: value}) for value in values}
        times = turns({value: agent.update for value, agent in agents.items()}, rounds)
        rows = [{name: value, "update [ms]": times[value]} for value in values]
        if name == "quantiles":
            losses = {}
            for value in values:
                quantiles = torch.randn(3, 256, value, requires_grad=True)
                targets = torch.randn(3, 256, value)
                losses[value] = lambda q=quantiles, t=targets: quantile_loss(q, t).sum().backward()
            alone = turns(losses, rounds)
            for row in rows:
                value = row[name]
                row["loss and gradient [ms]"] = alone[value]
                row["per N log N [ns]"] = 1e6 * alone[value] / (768 * value * np.log2(value))
        found[name] = rows
        table(f"growth with {name}", rows)
    return found


# --- Replay and loop ---


def replay() -> dict[str, float]:
    """Memory of a full replay, and sampling beside an update."""
    before = resident()
    agent = paper_agent(fill=1_000_000)
    parts = ("_before", "_after", "_gains", "_terminated", "_ended")
    raw = sum(getattr(agent.replay, part).nbytes for part in parts)
    grown = resident() - before
    generator = np.random.default_rng(0)
    times = turns(
        {"update": agent.update, "sample": lambda: agent.replay.sample(256, generator)}, 60
    )
    row = {
        "rows": len(agent.replay),
        "raw [MB]": raw / 1e6,
        "memory [MB]": grown / 1e6,
        "memory/raw": grown / raw,
        "sample [ms]": times["sample"],
        "sample/update": times["sample"] / times["update"],
    }
    table("a full replay", [row])
    return row


def loop(
    name: str, iterations: int, method: str = "ucp", preset: str = "paper", **options: Any
) -> dict[str, Any]:
    """The real training loop, split by what it spends its time on."""
    long = {"env_steps": 10**7, "random_steps": 0, "multiplier": {"start": 0}}
    ucp = Run(name, method=method, preset=preset, **long, **options)
    spent = dict.fromkeys(("step", "act", "sample", "update"), 0.0)

    def timed(owner: object, method: str, key: str) -> None:
        inner = getattr(owner, method)

        def outer(*args: Any) -> Any:
            begin = time.perf_counter()
            result = inner(*args)
            spent[key] += time.perf_counter() - begin
            return result

        setattr(owner, method, outer)

    timed(ucp.task, "step", "step")
    timed(ucp.learner, "act", "act")
    timed(ucp.learner, "update", "update")
    timed(ucp.learner.replay, "sample", "sample")
    before = ucp.learner.env_steps
    seconds = run_loop(ucp, iterations)
    env_steps = ucp.learner.env_steps - before
    share = (seconds - spent["update"]) / seconds
    return {
        "task, method, preset": f"{name}, {method}, {preset}",
        "iterations/s": iterations / seconds,
        "env steps/s": env_steps / seconds,
        "iteration [ms]": 1e3 * seconds / iterations,
        "collect [ms]": 1e3 * (spent["step"] + spent["act"]) / iterations,
        "sample [ms]": 1e3 * spent["sample"] / iterations,
        "update [ms]": 1e3 * (spent["update"] - spent["sample"]) / iterations,
        "not the update": share,
    }


def run_loop(ucp: Run, iterations: int) -> float:
    begun, progress = ucp.training.begin(), ucp.training.progress
    ucp.learner.act(*begun)  # compile and warm up
    hold = ucp.config.holding
    progress.goal = ucp.learner.env_steps + ucp.config.num_envs * hold.env_steps * iterations
    begin = time.perf_counter()
    source = Here(ucp.learner, ucp.task, begun, hold)
    train(ucp.learner, source, progress, Journal())
    return time.perf_counter() - begin


def side_by_side(iterations: int) -> dict[str, float]:
    """Two trainings at once, a thread each, against one alone; and with torch's own choice."""
    found = {}
    for label, threads in (("one thread each", 1), ("two threads each", 2)):
        alone = together(1, threads, iterations // threads)
        both = together(2, threads, iterations // threads**2)
        found |= {f"{label}: alone": alone, f"{label}: both": both, f"{label}: ratio": both / alone}
    table("trainings side by side [iterations/s of each]", [found])
    return found


def together(count: int, threads: int, iterations: int) -> float:
    """Mean iterations per second of `count` trainings in processes of their own."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import torch, learner\n"
        "n, t = int(sys.argv[2]), int(sys.argv[3])\n"
        "how = {'preset': 'paper', 'env_steps': 8 * n, 'random_steps': 0, 'threads': t}\n"
        "u = learner.Run(learner.TASKS[0], **how)\n"
        "learner.run_loop(u, 20); sys.stdout.write('ready\\n'); sys.stdout.flush()\n"
        "sys.stdin.readline(); print(n / learner.run_loop(u, n))"
    )
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(iterations), str(threads)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, **pipes) for _ in range(count)]
    for child in children:
        child.stdout.readline()  # wait until all of them are set up
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    return float(np.mean([float(child.communicate()[0]) for child in children]))


# --- Tools ---


def paper_agent(
    fill: int = 100_000,
    *,
    quantiles: int = 100,
    batch: int = 256,
    costs: int = 1,
    method: str = "ucp",
    preset: str = "paper",
) -> Any:
    """An agent of the paper's size with `fill` random transitions in its replay."""
    names = tuple(f"cost{i}" for i in range(costs))
    spec = TaskSpec("benchmark", OBS, (-1.0,) * ACTION, (1.0,) * ACTION, names, None)
    config: RunConfig = resolve(
        "benchmark",
        method=method,
        preset=preset,
        networks={"quantiles": quantiles},
        replay={"batch": batch, "capacity": fill},
        multiplier={"start": 0},
        budget_range=["0:30"] if costs == 1 else [f"{name}=0:30" for name in names],
        budget=[] if method == "ucp" else ["25"],
    )
    agent: Any = make_learner(config, spec, make_grid(config, spec), np.random.default_rng(0))
    stored, generator = agent.replay, np.random.default_rng(0)
    for part in (stored._before, stored._after, stored._gains):
        part[:] = generator.standard_normal(part.shape, np.float32)
    stored._before[..., -costs:] = -generator.integers(0, 31, stored._before[..., -costs:].shape)
    stored._ended[:] = generator.random(stored._ended.shape) < 1e-3
    stored._env_steps[:] = 1
    stored._rows_written = len(stored._ended)
    return agent


def turns(
    contestants: dict[Any, Callable[[], object]],
    rounds: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Any, float]:
    """Median milliseconds of each, all taking turns."""
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 3):
        for name, run in contestants.items():
            begin = clock()
            run()
            if turn >= 3:
                times[name].append(1e3 * (clock() - begin))
    return {name: median(values) for name, values in times.items()}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict[str, str]:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next(
        (line.split(":")[1].strip() for line in text.splitlines() if "model name" in line), ""
    )
    flags = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {flag}" in text]
    return {
        "processor": model or platform.processor(),
        "units": " ".join(flags),
        "processors": str(len(os.sched_getaffinity(0))),
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }


def table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (
            v if isinstance(v, str) else f"{v:,.0f}" if v == int(v) else f"{v:.3g}"
            for v in row.values()
        )
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
