"""The fleet as JSON over HTTP, for people and probes."""
