"""Everything that can be chosen about a run, and how choices become objects."""
