"""Learned drafters: what a drafter of one layer is made of."""

from enum import StrEnum


class DrafterModel(StrEnum):
    """Architecture of a learned drafter."""

    EAGLE = "eagle"
    """Reads the target's last hidden state, and uses its head (arXiv 2401.15077)."""
    EAGLE3 = "eagle3"
    """Reads states of several of the target's layers, and has a head of its own, often of fewer tokens (arXiv
    2503.01840)."""
