"""Adapters for trainers. Each is thin and imports its framework late, if at all."""
