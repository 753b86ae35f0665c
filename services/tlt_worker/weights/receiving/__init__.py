"""Weights broadcast or pickled by a trainer, received by one worker and collected until they are complete."""
