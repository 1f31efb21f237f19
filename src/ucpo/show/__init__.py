"""Episodes as pictures."""
