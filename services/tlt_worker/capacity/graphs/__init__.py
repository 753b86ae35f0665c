"""
Which CUDA graphs are captured, what they cost and what they are worth.

Pure. Others use `plan`, `runner`, `cost` and `sharing`.
"""
