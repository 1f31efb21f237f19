"""The protocol: a policy, budgets and seeds give one row per episode."""

from ucpo.evaluation.episodes import Job, evaluate, make_jobs, play
from ucpo.evaluation.runs import Request, evaluate_run

__all__ = ["Job", "Request", "evaluate", "evaluate_run", "make_jobs", "play"]
