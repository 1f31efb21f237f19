"""Agents: what acts and learns. Nothing here knows of run folders or training loops."""
