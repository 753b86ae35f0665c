"""`tlt bench capture`: cost of capturing hidden states during rollouts."""
