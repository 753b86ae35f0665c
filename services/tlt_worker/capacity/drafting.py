"""Arms that an engine's drafters can run. Pure."""

from tlt_common.domain.arm import Arm
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig, block_arms


def arms_for(engine: EngineConfig, device: str, drafter: DrafterFormat | None = None) -> tuple[Arm, ...]:
    """
    Return the arms of an engine on a device (`cuda` or `cpu`): the configured ones, or the defaults for its drafters.

    `drafter` None stands for autoregressive drafters.

    Raises:
        ConfigError: The configuration names arms that its drafters cannot run, field `engine.arms`.
    """
    block = 0 if drafter is None else drafter.block_drafts
    if engine.arms is None:
        return block_arms(block) if block else engine.arms_on(device)
    arms = engine.arms_on(device)
    for arm in arms:
        if reason := _refusal(arm, block):
            raise ConfigError(f"engine.arms names {arm.name}, {reason}", field="engine.arms")
    return arms


def _refusal(arm: Arm, block: int) -> str:
    if not arm.needs_drafter or (arm.is_block and arm.steps <= block) or (not arm.is_block and not block):
        return ""
    if not block:
        return (
            "but its drafters draft one token after the other; accepted: off, chains, trees and n-gram arms, or "
            "engine.drafter_architecture block"
        )
    return f"but its drafters draft blocks of {block} tokens; accepted: off, block-1 to block-{block} and n-gram arms"
