"""Readiness and liveness of this process, for probes and operators."""
