"""Launch parameters that an engine's arms require. Pure."""

from collections.abc import Sequence

from tlt_common.domain.arm import Arm


def launch_width(arms: Sequence[Arm]) -> int:
    """
    Return the number of slots per request that a round may write: draft tokens of the target, or branches times steps.

    An engine that never drafts is launched as if it drafted one token, since SGLang's worker requires a shape.
    """
    drafting = [arm for arm in arms if arm.steps > 0]
    return max((max(arm.draft_tokens, arm.steps * arm.topk) for arm in drafting), default=2)


def drafter_steps(arm: Arm | None) -> int:
    """
    Return the number of consecutive draft steps for which a state needs attention backends: none if the drafter does
    not draft, or drafts a block at once.

    `None` stands for the launch shape, which never drafts and would otherwise, as wide as the widest tree, have up to
    127.
    """
    return arm.steps if arm is not None and arm.needs_drafter and not arm.is_block else 0


def samples_drafts(arms: Sequence[Arm]) -> bool:
    """Return whether any arm samples drafts from the drafter's distribution."""
    return any(arm.sampled for arm in arms)
