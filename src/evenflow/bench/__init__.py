"""Benchmarks: side by side against what a user has today, one module per claim."""
