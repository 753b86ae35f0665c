"""Weights in files and on their way: read, spooled, compared. Needs no torch."""
