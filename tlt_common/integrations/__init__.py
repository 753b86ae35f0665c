"""Adapters for trainers. Each is thin and imports its framework lazily, if at all."""
