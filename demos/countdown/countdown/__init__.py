"""A tiny reasoning model, its task, and an RL run that demonstrates the suite: `tlt demo`."""
