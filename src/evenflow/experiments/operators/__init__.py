"""Experiments with operators: the evaluation of Know your neighbor, chaos, and live on Spark."""
