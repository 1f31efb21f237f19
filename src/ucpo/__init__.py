"""Reinforcement learning under budgets."""
