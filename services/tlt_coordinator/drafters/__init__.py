"""
Drafters that were published, and which of them are accepted.

Others may use `published`.
"""
