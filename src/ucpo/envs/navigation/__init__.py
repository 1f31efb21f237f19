"""The sixteen navigation tasks of Safety-Gymnasium, built natively: robots among objects."""
