"""Put evaluated runs here: python collect.py RUN SECONDS [RUN SECONDS ...].

SECONDS is the processor time of the training, as `time` says it. Of the metrics fifty rows are
kept, of the episodes what tables and reports are made from.
"""

import csv
import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs

from ucpo.config.files import read_config, to_toml

HERE = Path(__file__).parent
SPENT = HERE / "spent.csv"
ROWS = 50


def name(config):
    """What the folder of a run is called: task, preset where it is not the usual one, run."""
    usual = config.preset == "auto"
    return "-".join([config.task, *([] if usual else [config.preset]), config.name])


def collect(run):
    """Copy what tables are made from; returns the name of the folder."""
    config = read_config(run / "config.toml")
    folder = HERE / name(config)
    folder.mkdir(exist_ok=True)
    # In full, so that runs of older versions say what they did about options that are newer.
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    metrics = pl.read_csv(run / "metrics.csv", infer_schema_length=None)
    kept = metrics.gather_every(max(1, len(metrics) // ROWS))
    pl.concat([kept, metrics[-1:]]).unique("env_steps", keep="last", maintain_order=True).write_csv(
        folder / "metrics.csv", float_precision=4
    )
    for file in run.glob("evaluation*.parquet"):
        episodes = pl.read_parquet(file)
        episodes.drop(cs.starts_with("discounted_")).write_parquet(folder / file.name)
    return folder.name


def main():
    """Copy runs and note what they took."""
    before = SPENT.read_text(encoding="utf-8") if SPENT.exists() else "run,seconds"
    spent = dict(csv.reader(before.splitlines()))
    for run, seconds in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        spent[collect(Path(run))] = seconds
    header, *rows = spent.items()
    with SPENT.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *sorted(rows)])


if __name__ == "__main__":
    main()
