"""The fleet as JSON over HTTP, for operators and probes."""
