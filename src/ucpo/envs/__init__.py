"""Tasks: batches of environments with rewards, costs and stocks. Nothing here imports PyTorch."""

from ucpo.envs import navigation as navigation  # registers its environments with Gymnasium
