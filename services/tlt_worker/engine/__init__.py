"""Runs SGLang as a worker's engine: launch, requests, weights, drafters."""
