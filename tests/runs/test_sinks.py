import io
import sys

import polars as pl
import pytest

from ucpo.errors import UsageError
from ucpo.runs.sinks import CsvSink, Display, Journal, WandbSink

ROW = {
    "env_steps": 800.0,
    "updates": 50.0,
    "episodes": 20.0,
    "return": 12.3456,
    "cost/hazards": 7.5,
    "violations/hazards/0-7": 0.25,
    "excess/hazards/0-7": 1.5,
    "price/hazards/0-7": 3.0,
}
TIMING = {"steps_per_second": 1234.0, "left": 3723.0, "goal": 1600.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream):
    display = Display("ucp on Test", stream)
    display.write(ROW, TIMING)
    display.close()
    return stream.getvalue()


def test_without_a_terminal_there_are_plain_lines():
    assert shown(io.StringIO()).splitlines() == [
        "env_steps 800 | updates 50 | return 12.346 | cost/hazards 7.500 | "
        "1234 steps/s, 1:02:03 left"
    ]


def test_a_terminal_shows_progress_and_every_band(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = shown(Terminal())
    for part in ("800 of 1,600 (50%)", "1:02:03 left", "hazards 0-7", "25.0%", "1.500", "12.346"):
        assert part in text


def test_every_sink_gets_every_row(tmp_path):
    journal = Journal([CsvSink(tmp_path / "a.csv"), CsvSink(tmp_path / "b.csv")])
    journal.write({"env_steps": 1.0}, TIMING)
    journal.write({"env_steps": 2.0, "new": 3.0}, TIMING)
    journal.close()
    for name in ("a.csv", "b.csv"):
        assert (tmp_path / name).read_text().split() == ["env_steps", "1", "2"]


def test_tracking_without_the_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match=r"pip install 'ucpo\[wandb\]'"):
        WandbSink(tmp_path, {})


def test_cells_without_a_number_are_empty_so_that_columns_stay_numbers(tmp_path):
    sink = CsvSink(tmp_path / "metrics.csv")
    sink.write({"env_steps": 1, "actor_loss": float("nan")}, {})
    sink.write({"env_steps": 2, "actor_loss": 0.5}, {})
    read = pl.read_csv(tmp_path / "metrics.csv")
    assert read["actor_loss"].to_list() == [None, 0.5]
