"""Limits for arms of every kind."""

from typing import Final

MAX_STEPS: Final = 16
"""Maximum length of chains and depth of trees; beyond it, a single-layer drafter merely guesses."""
MAX_TOPK: Final = 16
MAX_DRAFT_TOKENS: Final = 128
