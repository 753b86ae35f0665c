"""Word problems: an RL run of a real language model with the TLT suite."""
