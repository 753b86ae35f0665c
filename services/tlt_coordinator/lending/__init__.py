"""
Decides which workers are lent, and how often they report. Pure.

Other packages may use all of it. It imports `config` only.
"""
