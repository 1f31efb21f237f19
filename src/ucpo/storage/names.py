"""What the files of a run folder are called, and the columns of its metrics."""

from __future__ import annotations

CONFIG_FILE = "config.toml"
METRICS_FILE = "metrics.csv"
LOG_FILE = "log.txt"
LOCK_FILE = "run.lock"
POLICY_FILE = "policy.safetensors"
CRITICS_FILE = "critics.safetensors"
CHECKPOINT_FOLDER = "checkpoint"
EVALUATION_FILE = "evaluation.parquet"
PATHS_FILE = "paths.parquet"
CALIBRATION_FILE = "calibration.parquet"
SWEEP_FILE = "sweep.json"  # of a sweep's folder: its runs
OUTCOME_FILE = "outcome.json"  # how a run of a sweep ended
PRUNED_FILE = "pruned.txt"  # tells a run of a search that it need not go on
BROKEN_STEP = "broken-step"  # .json says what happened, .npz holds the arrays
BROKEN_UPDATE = "broken-update"

# Metrics of a cost are called kind/cost, those of a band of its budgets kind/cost/band.
COST = "cost"
VIOLATIONS, EXCESS, PRICE = "violations", "excess", "price"


def column(kind: str, cost: str, band: str | None = None) -> str:
    """The name of a metric."""
    return f"{kind}/{cost}" if band is None else f"{kind}/{cost}/{band}"


def parts(name: str) -> tuple[str, str, str]:
    """Kind, cost and band of a metric; empty where it has none."""
    kind, _, rest = name.partition("/")
    cost, _, band = rest.rpartition("/") if rest.count("/") else (rest, "", "")
    return kind, cost, band
