"""Keeps speculation effective: the drafter, captured hidden states, recent rounds, and the link to the tuner."""
