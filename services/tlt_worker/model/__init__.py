"""Checks from files which checkpoints an engine can run, before anything is launched. Needs no torch."""
