"""Adapters for RL trainers. Each imports its framework late."""
