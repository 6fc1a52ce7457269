"""The search behind ``least_moves``: which node should own which unit."""
