"""`tlt bench train`: benefit of packing, and time that checkpoints block a trainer."""
