"""
Reports of a simulation: terminal, JSON, and a single HTML page.

Others use `Findings`, `table`, `document` and `page`.
"""
