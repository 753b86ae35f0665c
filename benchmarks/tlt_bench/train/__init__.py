"""`tlt bench train`: what packing gains, and how long a checkpoint keeps a trainer from training."""
