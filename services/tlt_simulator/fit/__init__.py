"""Fits cost models to recorded runs, and evaluates their predictions on held-out steps."""
