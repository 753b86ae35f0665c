"""Latency with which a spot trainer takes a lease and returns the device."""
