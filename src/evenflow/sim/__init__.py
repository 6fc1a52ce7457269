"""The virtual-time driver: a clock, seeded chance, a faulty network, crashes."""

from evenflow.sim.kernel import Simulation
from evenflow.sim.network import Network, Partition

__all__ = ["Network", "Partition", "Simulation"]
