"""
CUDA graphs to capture: their cost in memory and their benefit.

Pure. Others use `plan`, `runner`, `cost` and `sharing`.
"""
