"""Partition, delay and lose the packets between every pair of services, each in a network namespace of its own."""
