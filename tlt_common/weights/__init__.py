"""Weights in files and in transit: reading, spooling, linking and comparing. Needs no torch."""
