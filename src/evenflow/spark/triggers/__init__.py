"""Triggers on Spark: every lane is a trigger worker."""
