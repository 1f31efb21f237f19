"""Exact solutions of small finite problems."""

from ucpo.exact.program import solve

__all__ = ["solve"]
