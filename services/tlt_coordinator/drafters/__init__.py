"""
Published drafters, and the rules for accepting them.

Others may use `published`.
"""
