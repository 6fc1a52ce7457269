"""Experiments with brokers: chapter 5 of Cheung 2006, chaos, scale, and live on Spark."""
