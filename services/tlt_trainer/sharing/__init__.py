"""Scoring drafters, publishing them, and merging those of other trainers."""
