"""Files that are whole or absent, states as arrays, Parquet."""
