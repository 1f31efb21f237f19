"""A run: the loop, its folder, checkpoints and metrics."""
