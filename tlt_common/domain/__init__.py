"""Frozen nouns without I/O. Nothing here knows gRPC, Ray, Redis, Kubernetes or torch."""
