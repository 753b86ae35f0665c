"""Pools what all engines learn about the payoff of speculation. Engines make the decisions."""
