"""What a worker's rounds cost: what cost curves are learned from."""

from dataclasses import dataclass

from tlt_common.domain.arm import ArmWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedRounds:
    """Rounds of a worker over about half a second."""

    serial: int = 0
    """Rises with every report; the same rounds may be told several times. 0: none yet."""
    arms: tuple[ArmWindow, ...] = ()
    prefilled_tokens: int = 0
    """Tokens of prompts, and of responses that arrived from elsewhere, that were computed."""
    prefill_s: float = 0.0
    """Seconds of the rounds that computed them."""


NO_ROUNDS = WorkedRounds()
