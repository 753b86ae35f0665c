"""
Directories and object stores: drafters and checkpoints.

Others may use `storage` and `checkpoints`.
"""
