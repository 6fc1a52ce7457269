"""Operators of continuous queries move between neighbours of a tree of metering units, by negotiation."""
