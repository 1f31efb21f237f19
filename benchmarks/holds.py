"""How far the predicted probability that a budget holds can be believed.

Plays episodes with a policy that has critics, asks them about twenty times an episode for the
probability that what is left will do, and compares that with what then happened. Prints a table and
draws the reliability diagram of docs/guides/live.md:

    python benchmarks/holds.py RUN [RUN ...] --episodes 250 --output holds
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ucpo import load
from ucpo.envs.registry import make_task
from ucpo.evaluation.episodes import Identity, Moment, Row, in_blocks, make_jobs, play
from ucpo.policies.controller import RemainingCost, evenly
from ucpo.policies.critics import judging

SAMPLES = 20  # predictions in an episode
BUDGETS = (0.0, 5.0, 15.0, 25.0)
WAYS = {"evenly": "scaled to the steps left", "plain": "as the critics say it"}


class Holds:
    """One row per prediction: the probability in each way, and whether the budget held."""

    def __init__(self, policy, task) -> None:
        self._critics, self._identity = judging(policy), Identity(policy, task.spec)
        self._gammas = np.array(policy.info.gammas[1:])
        self._limit = task.spec.max_episode_steps
        self._every = self._limit // SAMPLES
        self._rows: list[list[Row]] = [[] for _ in range(task.num_envs)]

    def see(self, moment: Moment) -> list[Row]:
        asked = np.flatnonzero(moment.ages % self._every == 0)
        if len(asked):
            seen = (each[asked] for each in (moment.obs, moment.stock, moment.actions))
            for row, quantiles in zip(
                asked, in_blocks(self._critics.quantiles, *seen), strict=True
            ):
                age = int(moment.ages[row])
                left = -moment.stock[row].astype(float)
                scale = evenly(self._limit - age, self._gammas)[:, None]
                ways = {"evenly": quantiles * scale, "plain": quantiles}
                chances = {
                    way: float(RemainingCost(np.maximum(q, 0.0), left).holds[0])
                    for way, q in ways.items()
                }
                self._rows[row].append({"age": age, "left": float(left[0]), **chances})
        finished = []
        for i, job in moment.finished:
            row = int(moment.step.episodes.rows[i])
            held = bool(moment.step.episodes.costs[i, 0] <= job.budgets[0])
            known = {**self._identity.row(job), "held": held}
            finished += [{**known, **each} for each in self._rows[row]]
        for row in moment.step.episodes.rows:
            self._rows[row] = []
        return finished


def measure(given: str, episodes: int) -> pl.DataFrame:
    policy = load(given)
    task = make_task(policy.info.task, 64, policy.info.cost_names)
    jobs = make_jobs(policy, BUDGETS, episodes, seed=1)
    played = play(policy, task, jobs, {"holds": Holds(policy, task)})
    rows = pl.DataFrame([row for seen in played for row in seen["holds"]])
    task.close()
    return rows


def table(rows: pl.DataFrame) -> None:
    """Brier scores (mean squared error of a probability; less is better) beside simpler guesses."""
    open_ = rows.filter(pl.col("left") >= 0.0)  # what is exceeded already needs no prediction
    share = pl.col("held").mean().over("budget_cost")
    guesses = {**{way: pl.col(way) for way in WAYS}, "share at that budget": share}
    print(
        f"{rows['task'][0]}: {rows['episode_seed'].n_unique()} seeds at each budget, "
        f"{len(rows):,} predictions, {len(open_):,} of them before the budget was exceeded"
    )
    for name, guess in guesses.items():
        found = open_.select(
            brier=((guess - pl.col("held")) ** 2).mean(),
            mean=guess.mean(),
            held=pl.col("held").mean(),
        ).row(0)
        print(f"  {name:22} Brier {found[0]:.4f}   predicted {found[1]:.3f}   held {found[2]:.3f}")
    print("  how often an episode that held had the higher prediction, at one budget and age:")
    for way in WAYS:
        print(f"    {way}: {ranking(open_, way):.3f}")
    for way in WAYS:
        print(f"  {way}: predicted -> held (predictions)")
        for low, *found in bins(open_, way):
            print(f"    {low:.1f}-{low + 0.1:.1f}: {found[0]:.3f} -> {found[1]:.3f} ({found[2]:,})")


def ranking(rows: pl.DataFrame, way: str) -> float:
    """Of pairs of episodes at one budget and age of which one held: how often it was ranked first.

    0.5 is no better than chance; ties count half.
    """
    right = pairs = 0.0
    for _, group in rows.group_by("budget_cost", "age"):
        held, lost = (
            group.filter(pl.col("held") == each)[way].to_numpy() for each in (True, False)
        )
        above = np.sign(held[:, None] - lost[None])
        right, pairs = right + float((0.5 + 0.5 * above).sum()), pairs + above.size
    return right / pairs


def bins(rows: pl.DataFrame, way: str) -> list[tuple[float, float, float, int]]:
    place = (pl.col(way) * 10.0).floor().clip(0.0, 9.0) / 10.0
    grouped = rows.group_by(low=place).agg(
        mean=pl.col(way).mean(), held=pl.col("held").mean(), n=pl.len()
    )
    return grouped.sort("low").rows()


def draw(frames: list[pl.DataFrame], target: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.3 * len(frames), 4.1), layout="constrained")
    for axis, rows in zip(figure.subplots(1, len(frames), squeeze=False)[0], frames, strict=True):
        open_ = rows.filter(pl.col("left") >= 0.0)
        axis.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1)
        for (way, label), colour in zip(WAYS.items(), ("#2a78d6", "#eb6834"), strict=True):
            found = bins(open_, way)
            sizes = [12 + 160 * n / len(open_) for *_, n in found]
            xs, ys = [m for _, m, _, _ in found], [h for _, _, h, _ in found]
            axis.plot(xs, ys, color=colour, linewidth=1.2, label=label)
            axis.scatter(xs, ys, sizes, color=colour, alpha=0.75)
        axis.set(title=rows["task"][0], xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axis.set(xlabel="predicted probability that the budget holds", ylabel="share that held")
        axis.set_aspect("equal")
        axis.grid(color="0.93")
        axis.legend(loc="lower right", frameon=False, fontsize=9)
    figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--episodes", type=int, default=250, help="at each of 0, 5, 15 and 25")
    parser.add_argument("--output", default="holds", help="files without an ending")
    given = parser.parse_args()
    frames = [measure(run, given.episodes) for run in given.runs]
    for frame in frames:
        table(frame)
    pl.concat(frames).write_parquet(f"{given.output}.parquet")
    draw(frames, Path(f"{given.output}.png"))


if __name__ == "__main__":
    main()
