"""
Directories and object stores of drafters and checkpoints.

Other packages may use `storage` and `checkpoints`.
"""
