"""
Formats of drafters: a learned drafter on disk, for code that writes, checks, loads or runs one.

Imports no torch: the worker plans with the format before anything is loaded.
"""
