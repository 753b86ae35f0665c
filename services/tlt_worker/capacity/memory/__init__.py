"""
Divides a GPU's memory between weights, KV cache, graphs, drafter and spot trainer.

Pure. Others use `gpu_plan` and `memory`.
"""
