"""
What speculation costs and gains in one engine: `tlt bench engine`, `rounds`, `switch` and `trace`.

`cli` uses `engine`, `rounds`, `switch` and `recording`; nothing else is for others.
"""
