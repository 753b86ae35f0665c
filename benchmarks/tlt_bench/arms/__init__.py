"""
Cost and benefit of speculation in one engine: `tlt bench engine`, `rounds`, `switch` and `trace`.

`cli` uses `engine`, `rounds`, `switch` and `recording`; everything else is internal.
"""
