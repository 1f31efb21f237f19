"""Tasks: batches of environments with rewards, costs and stocks. Nothing here imports PyTorch."""
