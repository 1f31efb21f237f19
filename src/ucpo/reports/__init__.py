"""Tables and figures from evaluation files, and the paper's numbers to set beside them."""

from ucpo.reports.figures import cost_distributions, frontier
from ucpo.reports.tables import table

__all__ = ["cost_distributions", "frontier", "table"]
