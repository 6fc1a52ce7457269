"""Experiments: a registry finds them by name, a campaign runs them over seeds; one package per system."""
