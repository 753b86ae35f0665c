"""The coordinator's page over simulated fleets, for its tests and its picture."""
