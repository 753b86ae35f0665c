"""Warm-up: runs everything that is compiled on first use before a worker reports ready."""
