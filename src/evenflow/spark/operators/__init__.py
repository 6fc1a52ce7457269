"""Operators on Spark: query operators move between the units of a metering tree."""
