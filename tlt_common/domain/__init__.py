"""Frozen domain types without I/O. Independent of gRPC, Ray, Redis, Kubernetes and torch."""
