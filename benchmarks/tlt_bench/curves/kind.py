"""The kinds of reinforcement learning that are compared."""

from enum import StrEnum


class Kind(StrEnum):
    """`--kind`."""

    GRPO = "grpo"
    """TRL's GRPO, as in the demo."""
    RLOO = "rloo"
    """REINFORCE with the mean of the other samples of the prompt as the baseline (arXiv 2402.14740)."""
    REINFORCE = "reinforce"
    """REINFORCE with rewards normalised over the batch, as in REINFORCE++ (arXiv 2501.03262)."""
    GSPO = "gspo"
    """GRPO with one clipped ratio per response (arXiv 2507.18071), against the engine's logprobs."""
    ASYNC = "async"
    """GRPO on responses that are sampled while the policy learns, weighted by truncated ratios per token."""
    TOOLS = "tools"
    """RLOO on episodes of two turns: a program checks the first answer, and the policy may try again."""
