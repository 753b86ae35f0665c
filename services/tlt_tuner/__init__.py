"""Pools the fleet's statistics on speculation arms. Engines make the decisions."""
