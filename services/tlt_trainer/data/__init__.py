"""Captured hidden states on their way to the trainer, and as training data."""
