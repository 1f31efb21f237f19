"""Compiled loops and backward passes written by hand, out of the reader's way."""
