"""Keeps distributed event processing evenly loaded while it runs."""
