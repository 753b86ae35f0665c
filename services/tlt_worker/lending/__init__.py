"""Lends the worker's device to its spot trainer and takes it back."""
