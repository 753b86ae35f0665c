"""Costs of rounds, drafts, learning and switches, with the source of each number."""
