"""The same policies in the original tasks and in ours, paired by seed.

    python benchmarks/original.py --peer-python PATH [TASK ...] [--pairs 100] [--budget 15]
                                  [--rows FILE.csv]

Every policy of the zoo (or those of the tasks given) plays the same seeds under the same budget in
safety-gymnasium 1.0.0 and here; for a seed both draw the very same layout or start. Printed is what
each gives on average, and the mean of the differences, ours minus the original's, with a 95 %
interval (Student's t over pairs). `docs/benchmarks.md` says how to make an interpreter that has the
original. With `--rows`, episodes are kept and those that are there already are not played again.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ucpo.envs.registry import make_task
from ucpo.evaluation.episodes import evaluate, fingerprint, make_jobs
from ucpo.learners.networks import Actor
from ucpo.policies import zoo
from ucpo.policies.policy import Policy, load
from ucpo.stats.intervals import student_t

PEER = Path(__file__).with_name("original_peer.py")


class Played(NamedTuple):
    """One episode."""

    where: str  # "original" or "ours"
    task: str
    policy: str  # its fingerprint
    budget: float
    seed: int
    total: float  # return
    cost: float
    env_steps: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tasks = sorted({name.partition("/")[0] for name in zoo.names()})
    parser.add_argument("tasks", nargs="*", default=tasks, help="all of the zoo by default")
    parser.add_argument("--peer-python", type=Path, required=True, help="that has the original")
    parser.add_argument("--pairs", type=int, default=100, help="episodes of each kind and task")
    parser.add_argument("--budget", type=float, default=15.0, help="in cost units")
    parser.add_argument("--rows", type=Path, help="keep episodes in this file, and go on from it")
    options = parser.parse_args()
    rows = list(_read(options.rows)) if options.rows and options.rows.exists() else []
    print(
        "| task, budget | pairs | return: original / ours | difference | cost: original / ours "
        "| difference |\n" + "|---" * 6 + "|"
    )
    for task in options.tasks:
        policy = load(f"zoo:{task}")
        for played in play(options, task, policy, rows):
            rows.append(played)
            if options.rows:
                _append(options.rows, played)
        print(line(task, options.budget, fingerprint(policy), rows), flush=True)


def play(
    options: argparse.Namespace, task: str, policy: Policy, there: Sequence[Played]
) -> Iterator[Played]:
    """Episodes that are not there yet."""
    jobs = make_jobs(policy, [options.budget], options.pairs, seed=0)
    key = (task, fingerprint(policy), options.budget)
    done = {(row.where, row.seed) for row in there if (row.task, row.policy, row.budget) == key}
    if any(("ours", job.seed) not in done for job in jobs):
        envs = make_task(task, num_envs=min(64, options.pairs))
        found = evaluate(policy, envs, [options.budget], options.pairs, seed=0)
        for row in found.iter_rows(named=True):
            if ("ours", row["episode_seed"]) not in done:
                result = (row["return"], row["cost_cost"], row["length"])
                yield Played("ours", *key, row["episode_seed"], *result)
    seeds = [job.seed for job in jobs if ("original", job.seed) not in done]
    if seeds:
        for seed, *result in original(options.peer_python, task, policy, options.budget, seeds):
            yield Played("original", *key, int(seed), result[0], result[1], int(result[2]))


def original(
    python: Path, task: str, policy: Policy, budget: float, seeds: Sequence[int]
) -> Iterator[list[float]]:
    """Episodes of the original: seed, return, cost, environment steps."""
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.npz"
        np.savez(weights, **plain(policy))
        command = [str(python), str(PEER), task, str(weights), str(budget), *map(str, seeds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as peer:
            assert peer.stdout
            for text in peer.stdout:
                if text.startswith("episode"):
                    yield [float(word) for word in text.split()[1:]]
        if peer.returncode:
            raise SystemExit(f"the original ended with code {peer.returncode}; see above")


def plain(policy: Policy) -> dict[str, np.ndarray]:
    """A policy as arrays: all that a controller in plain NumPy needs."""
    info, actor = policy.info, policy.actor
    if not isinstance(actor, Actor) or info.stock_features or len(info.cost_names) != 1:
        raise SystemExit("only policies of UCP, SAC and TD3 with one cost can be played there")
    body = actor.body
    found = {
        "layers": np.array(len(body.layers.sizes) - 1),
        "shift": getattr(body, "shift", np.zeros(info.observation_size, np.float32)),
        "scale": getattr(body, "scale", np.ones(info.observation_size, np.float32)),
        "stock_shown": np.array(info.stock_size),
        "stock_scale": np.array(info.scales[0]),
        "stock_ceiling": np.array(np.inf if info.stock_ceiling is None else info.stock_ceiling),
        "stock_discount": np.array(info.stock_discount),
        "low": np.array(info.action_low),
        "high": np.array(info.action_high),
    }
    for i, (weight, bias) in enumerate(body.layers.stack()):
        found |= {f"weight{i}": weight.detach()[0], f"bias{i}": bias.detach()[0]}
    return {name: np.asarray(value) for name, value in found.items()}


def line(task: str, budget: float, policy: str, rows: Sequence[Played]) -> str:
    """A line of the table, of the pairs there are."""
    mine = [row for row in rows if (row.task, row.policy, row.budget) == (task, policy, budget)]
    found = {where: {r.seed: r for r in mine if r.where == where} for where in ("original", "ours")}
    seeds = sorted(found["original"].keys() & found["ours"].keys())
    cells = [f"{task}, {budget:g}", f"{len(seeds)}"]
    for name in ("total", "cost"):
        theirs, ours = (
            np.array([getattr(found[where][seed], name) for seed in seeds]) for where in found
        )
        between = student_t(ours - theirs)
        digits = 0 if abs(theirs.mean()) >= 500 else 2
        cells.append(f"{theirs.mean():.{digits}f} / {ours.mean():.{digits}f}")
        cells.append(f"{between.mean:+.2f} [{between.low:.2f}, {between.high:.2f}]")
    return "| " + " | ".join(cells) + " |"


def _read(path: Path) -> Iterator[Played]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = float(row["budget"]), int(row["seed"]), float(row["total"])
            rest = float(row["cost"]), int(row["env_steps"])
            yield Played(row["where"], row["task"], row["policy"], *numbers, *rest)


def _append(path: Path, played: Played) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(Played._fields)
        writer.writerow(played)


if __name__ == "__main__":
    main()
