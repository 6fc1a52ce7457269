"""Brokers on Spark: subscriptions move between lanes."""
