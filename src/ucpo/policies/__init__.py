"""A policy file, a controller under a budget, and the zoo."""
