"""Training and evaluation of a drafter on collected rollouts, without a running suite."""
