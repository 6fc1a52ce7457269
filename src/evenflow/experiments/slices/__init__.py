"""Experiments with slices: worlds, workloads, faults, figures and live drills."""
