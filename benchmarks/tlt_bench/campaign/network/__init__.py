"""Partitions, delays and drops packets between every pair of services, each in its own network namespace."""
