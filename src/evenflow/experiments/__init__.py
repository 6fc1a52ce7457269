"""The published experiments in virtual time, one module per system; the registry finds them by name."""
