import json
import re

import numpy as np
import polars as pl
import pytest

from ucpo.cli.main import main
from ucpo.errors import UsageError
from ucpo.reports import build, paper
from ucpo.reports.html import data
from ucpo.reports.paths import draw_paths
from ucpo.reports.sheets import Sheet, interval, latex, markdown, number, published

KINDS = ("frontier", "bars", "comparison", "densities", "learning", "multipliers", "calibration")


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    main(["report", str(runs), "--against-paper", "-o", str(folder)])
    return folder


def rows(method="ucp", seed=0, budgets=(5.0,), episodes=4, cost="cost", task="T-v0"):
    count = episodes * len(budgets)
    generator = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "task": [task] * count,
            "method": [method] * count,
            "training_seed": [seed] * count,
            f"budget_{cost}": np.repeat(budgets, episodes),
            "return": generator.normal(10.0, 1.0, count),
            f"cost_{cost}": generator.poisson(5.0, count).astype(float),
        }
    )


def write(folder, name, frame):
    (folder / name).mkdir()
    frame.write_parquet(folder / name / "evaluation.parquet")
    return folder / name


def test_three_runs_make_every_table_and_figure_in_every_format(report):
    tables = {file.stem for file in (report / "tables").iterdir()}
    expected = {
        "comparison",
        "budgets",
        "tails",
        "aggregates",
        "improvement",
        "calibration",
        "runs",
    }
    assert tables == expected
    figures = {file.name for file in (report / "figures").iterdir()}
    for kind in KINDS:
        cost = "-cost" if kind == "calibration" else ""
        for ending in ("png", "svg"):
            assert f"{kind}-SafetyPointCircle1-v0{cost}.{ending}" in figures
    text = (report / "report.md").read_text()
    for image in re.findall(r"\((figures/\S+)\)", text):
        assert (report / image).stat().st_size > 2000
    for title in ("Comparison of methods", "How budgets are exceeded", "Calibration"):
        assert f"## {title}" in text


def test_numbers_in_tables_are_those_of_the_episodes(runs, report):
    table = pl.read_csv(report / "tables" / "budgets.csv")
    row = table.filter(pl.col("method") == "ucp", pl.col("budget") == 25.0).to_dicts()[0]
    means = []
    for seed in (0, 1):
        episodes = pl.read_parquet(runs / f"ucp-{seed}" / "evaluation.parquet")
        means.append(episodes.filter(pl.col("budget_cost") == 25.0)["return"].mean())
    assert row["return"] == pytest.approx(np.mean(means))
    # Student-t with one degree of freedom: 12.706 times the standard error
    assert row["return_half"] == pytest.approx(12.706 * abs(means[0] - means[1]) / 2, rel=1e-3)
    assert (row["seeds"], row["episodes"], row["env_steps"]) == (2, 12, 3200)
    published = paper.lookup("UCP", "SafetyPointCircle1-v0", 25)
    assert row["paper_return"] == published.return_mean
    assert row["return_difference"] == pytest.approx(row["return"] - published.return_mean)


def test_one_seed_has_no_interval_and_no_verdict(report):
    table = pl.read_csv(report / "tables" / "budgets.csv")
    alone = table.filter(pl.col("method") == "ucp-mean")
    assert alone["return_half"].null_count() == len(alone) == 2
    assert alone["return_overlap"].null_count() == 2


def test_missing_runs_leave_gaps(tmp_path):
    first = write(tmp_path, "a", rows("ucp", 0, (0.0, 25.0), task="SafetyAntVelocity-v1"))
    second = write(tmp_path, "b", rows("ucp-nr", 0, (25.0,), task="SafetySwimmerVelocity-v1"))
    build([first, second], tmp_path / "out", against_paper=True)
    text = (tmp_path / "out" / "tables" / "comparison.md").read_text()
    ant = next(line for line in text.splitlines() if "Ant" in line and "return" in line)
    assert ant.split("|")[4].strip() == "-"  # no UCP-NR on that task
    assert "nan" not in text.lower()
    assert "null" not in (tmp_path / "out" / "report.md").read_text().lower()
    assert not list((tmp_path / "out" / "figures").glob("learning*"))


def test_several_costs_have_their_own_rows(tmp_path):
    two = rows(cost="a").with_columns(budget_b=pl.lit(3.0), cost_b=pl.lit(4.0))
    build([write(tmp_path, "two", two)], tmp_path / "out")
    table = pl.read_csv(tmp_path / "out" / "tables" / "tails.csv")
    assert table["cost_name"].to_list() == ["a", "b"]
    assert table.filter(pl.col("cost_name") == "b")["excess"].to_list() == [1.0]
    assert set(table["setting"]) == {"a=5, b=3"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda place: [place / "nowhere"], "there is nothing at"),
        (lambda place: [place], "holds no evaluation.parquet; evaluate first"),
        (lambda place: [], "nothing to report on"),
        (lambda place: [garbage(place)], "cannot be read as Parquet"),
        (lambda place: [write(place, "x", rows().drop("return"))], "has no column return"),
        (lambda place: [write(place, "x", rows().drop("cost_cost"))], "has no column cost_NAME"),
        (lambda place: [write(place, "x", rows().head(0))], "has no rows"),
        (
            lambda place: [write(place, "x", rows().with_columns(cost_cost=pl.lit(np.nan)))],
            "not finite",
        ),
        (
            lambda place: [write(place, "x", rows()), write(place, "y", rows(seed=1, cost="b"))],
            "different costs",
        ),
        (
            lambda place: [write(place, "x", rows()), write(place, "y", rows())],
            "would count as one run",
        ),
    ],
)
def test_what_cannot_be_reported_on_is_refused(tmp_path, spoil, message):
    with pytest.raises(UsageError, match=message):
        build(spoil(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def garbage(place):
    (place / "evaluation.parquet").write_bytes(b"PAR1 but no more")
    return place


def test_mistakes_on_the_command_line_end_with_code_2(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    assert "there is nothing at" in capsys.readouterr().err


def test_the_same_run_named_twice_counts_once(runs, tmp_path):
    build([runs, runs / "ucp-0"], tmp_path)
    assert pl.read_csv(tmp_path / "tables" / "runs.csv")["episodes"].to_list() == [6, 6, 6]


def test_names_cannot_break_out_of_page_or_table(tmp_path):
    evil = "</script><b>|&$"
    build([write(tmp_path, "x", rows(method=evil))], tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("</script>") == 2  # the data's and the program's
    assert "<b>" not in page
    payload = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
    assert not set("<>&") & set(payload)
    assert json.loads(payload)[0]["charts"][0]["series"][0]["label"] == evil
    assert r"\$" in (tmp_path / "out" / "tables" / "budgets.tex").read_text()
    assert r"\|" in (tmp_path / "out" / "tables" / "budgets.md").read_text()


def test_page_data_has_only_numbers_json_knows():
    assert json.loads(data([float("nan"), float("inf"), 1 / 3])) == [None, None, 0.3333333]


def test_numbers_as_shown():
    assert interval(25.41, 0.52) == "25.4 ± 0.5"
    assert interval(0.251, 0.012) == "0.251 ± 0.012"
    assert interval(2.0, 12.7) == "2.0 ± 12.7"
    assert published(25.4, 0.7) == "25.4 ± 0.7"
    assert published(None, None) == "-"
    assert interval(25.41, None) == "25.4"
    assert interval(None, None) == number(float("nan")) == "-"
    assert [number(x) for x in (3_000_000, 0.1234, 1.239, 1234.56)] == [
        *("3,000,000", "0.123", "1.24", "1,234.6")
    ]


def test_tables_in_markdown_and_latex():
    sheet = Sheet("t", "T", "", ("task", "return"), (("a_b", "1 ± 2"),), pl.DataFrame())
    assert markdown(sheet).splitlines() == ["| task | return |", "| --- | --- |", "| a_b | 1 ± 2 |"]
    assert r"a\_b & 1 $\pm$ 2 \\" in latex(sheet)
    assert r"\begin{tabular}{lr}" in latex(sheet)


def test_paths_are_drawn(runs):
    from PIL import Image

    drawn = draw_paths(runs / "ucp-0" / "paths.parquet")
    with Image.open(drawn) as image:
        assert image.size == (2 * 326, 326)  # two budgets, one episode each


def test_figures_come_before_tables_and_a_summary_before_both(report):
    page = (report / "report.html").read_text()
    places = [page.index(text) for text in ('class="summary"', "<section id=", "<table>")]
    assert places == sorted(places)
    text = (report / "report.md").read_text()
    assert text.index("told 25") < text.index("![") < text.index("| task |")


def test_the_summary_says_what_the_largest_budget_brings(tmp_path):
    from ucpo.reports.findings import MOST, findings
    from ucpo.stats import over_seeds, per_seed

    frame = rows(budgets=(5.0, 25.0)).with_columns(pl.lit(30.0).alias("cost_cost"))
    (said,) = findings(over_seeds(per_seed(frame, ("cost",))))
    assert said.startswith("T-v0, UCP: told 25, it returns ")
    assert "at a cost of 30.0; 100.0% of episodes exceed the budget" in said
    assert "by 5.00 on average (1 seed)" in said
    many = pl.concat([rows(method=f"m{i}") for i in range(20)])
    said = findings(over_seeds(per_seed(many, ("cost",))))
    assert len(said) == MOST
    assert said[-1].startswith("9 more")


def test_no_two_methods_share_a_colour():
    from ucpo.reports.charts import colours

    methods = ["ucp", "ucp-mean", *(f"m{i}" for i in range(60))]
    assert len(set(colours(methods).values())) == len(methods)


def test_intervals_end_where_nothing_can_be():
    from matplotlib.figure import Figure as Canvas

    from ucpo.reports.charts import Chart, Series
    from ucpo.reports.drawing import _draw_chart

    for kind in ("line", "marks", "bars"):
        series = Series("a", (0.0, 1.0), (1.0, 5.0), "#123456", kind, half=(3.0, 2.0), width=0.5)
        lows = []
        for floor in (None, 0.0):
            axis = Canvas().subplots()
            _draw_chart(axis, Chart("", "x", "y", (series,), floor=floor), {})
            lows.append(axis.dataLim.y0)
        assert lows == [-2.0, 0.0], kind


def test_panels_of_one_episode_have_one_scale(tmp_path, monkeypatch):
    """One path leaves the square that is usually shown, the other stays."""
    seen = []
    from ucpo.envs.navigation import drawing

    def pen(half_width, pixels, make=drawing._Pen):
        seen.append(half_width)
        return make(half_width, pixels)

    monkeypatch.setattr(drawing, "_Pen", pen)
    paths = pl.DataFrame(
        {
            "task": ["SafetyPointGoal1-v0"] * 2,
            "budget_cost": [0.0, 25.0],
            "episode_seed": [1, 1],
            "reward": [[0.0, 0.0]] * 2,
            "cost_cost": [[0.0, 0.0]] * 2,
            "x": [[0.0, 7.0], [0.0, 0.1]],
            "y": [[0.0, 0.0]] * 2,
        }
    )
    paths.write_parquet(tmp_path / "paths.parquet")
    assert draw_paths(tmp_path / "paths.parquet").is_file()
    assert seen == [7.3, 7.3]


def test_long_names_are_not_cut_off_by_the_edge(tmp_path, monkeypatch):
    from matplotlib.figure import Figure as Canvas

    from ucpo.reports.charts import Chart, Figure, Series
    from ucpo.reports.drawing import draw

    name = "PPO-ET [stopped, omnisafe-navigation, W=0.1]"
    series = tuple(Series(f"s{i}", (i,), (1.0,), "#123456", "bars", width=0.5) for i in range(9))
    chart = Chart("", "", "y", series, ticks=tuple((float(i), name) for i in range(9)))
    seen = []

    def measured(canvas, path, **_):
        canvas.draw_without_rendering()
        seen.extend(each.get_window_extent() for each in canvas.axes[0].get_xticklabels())

    monkeypatch.setattr(Canvas, "savefig", measured)
    draw(Figure("f", "T-v0", "title", "", (chart,)), tmp_path)
    assert min(extent.x0 for extent in seen) > 0
    assert min(extent.y0 for extent in seen) > 0
