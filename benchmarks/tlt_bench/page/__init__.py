"""The coordinator's page with simulated fleets, for its tests and its screenshot."""
