"""
Which workers are lent, and how often they report. Pure.

Others may use all of it; it imports `config` only.
"""
