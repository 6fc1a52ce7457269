"""Experiments with processes on DDS."""
