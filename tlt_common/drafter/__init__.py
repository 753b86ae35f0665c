"""
Formats of learned drafters on disk, for code that writes, checks, loads or runs them.

Imports no torch: the worker plans with the format before anything is loaded.
"""
