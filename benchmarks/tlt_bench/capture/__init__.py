"""`tlt bench capture`: what capturing hidden states costs the rollout."""
