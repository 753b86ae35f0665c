"""
What a simulation came to: for the terminal, as JSON, and as one HTML page.

Others use `Findings`, `table`, `document` and `page`.
"""
