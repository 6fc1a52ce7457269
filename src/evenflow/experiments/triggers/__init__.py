"""Experiments with triggers: the evaluation of DLBer, chaos, and live on Spark."""
