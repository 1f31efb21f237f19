import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from ucpo.reports import cost_distributions, frontier, table


@pytest.fixture
def episodes():
    generator = np.random.default_rng(0)
    budgets = np.repeat([0.0, 5.0, 10.0], 40)
    return pl.concat(
        pl.DataFrame(
            {
                "method": [method] * 120,
                "budget_cost": budgets,
                "return": budgets + generator.normal(size=120),
                "cost_cost": generator.poisson(budgets * share).astype(float),
            }
        )
        for method, share in (("ucp", 0.5), ("ucp-mean", 1.0))
    )


def test_a_table_shows_every_method_and_budget_and_the_share_of_the_optimum(episodes):
    stream = io.StringIO()
    best = {0.0: 1.0, 5.0: 10.0, 10.0: 20.0}
    Console(file=stream, width=200).print(table(episodes, best))
    text = stream.getvalue()
    assert text.count("ucp-mean") == 3
    assert "of optimum" in text
    assert "E[cost | cost > b]" in text
    assert "240 episodes" in text


def test_several_costs_get_a_line_each_and_fit_a_terminal(episodes):
    stream = io.StringIO()
    two = episodes.with_columns(budget_fines=pl.lit(3.0), cost_fines=pl.lit(4.0))
    Console(file=stream, width=80).print(table(two))
    lines = [line for line in stream.getvalue().splitlines() if " fines " in line]
    assert len(lines) == 6
    assert all("100.0%" in line and "1.000" in line for line in lines)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_figures_are_written_with_their_labels(episodes, ending, tmp_path):
    frontier(episodes, tmp_path / f"f.{ending}", (np.arange(11.0), np.arange(11.0)))
    cost_distributions(episodes, 5.0, tmp_path / f"d.{ending}")
    for name in ("f", "d"):
        assert (tmp_path / f"{name}.{ending}").stat().st_size > 5000
