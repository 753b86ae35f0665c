"""
Who gets a GPU's memory: weights, cache, graphs, drafter, trainer.

Pure. Others use `gpu_plan` and `memory`.
"""
