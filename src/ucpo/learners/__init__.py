"""What learns: collects, improves, and is saved; knows nothing of run folders."""
