"""Spark's own stateful processors, run on the slice plane: one key's state is in the worker's memory, not behind a socket."""
