"""Slices on Spark: a keyed stream whose slices move between lanes with their state."""
