"""`tlt try`: a batch of the user's own prompts, rolled out without and with speculation."""
