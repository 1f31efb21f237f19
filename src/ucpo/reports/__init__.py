"""Tables and figures from evaluation files, and the paper's numbers to set beside them."""

from ucpo.reports.figures import cost_distributions, frontier
from ucpo.reports.paths import draw_paths
from ucpo.reports.report import build
from ucpo.reports.tables import table

__all__ = ["build", "cost_distributions", "draw_paths", "frontier", "table"]
