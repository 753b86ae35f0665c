"""Weights that a trainer broadcasts or pickles, received by one worker and collected until they are complete."""
