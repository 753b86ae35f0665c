"""Block drafting: the drafter's pass and the context that it reads."""
