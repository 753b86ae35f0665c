"""Measures how fast a drafter learns and how well it follows a policy whose prompts change."""
