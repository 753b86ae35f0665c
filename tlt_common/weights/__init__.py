"""Weights in files and on their way: read, spooled, linked, compared. Needs no torch."""
