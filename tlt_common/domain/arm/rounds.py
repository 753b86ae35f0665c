"""Costs of a worker's rounds, from which cost curves are fitted."""

from dataclasses import dataclass

from tlt_common.domain.arm import ArmWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedRounds:
    """Rounds of a worker over about half a second."""

    serial: int = 0
    """Rises with every report; repeated reports have the same serial. 0 before the first report."""
    arms: tuple[ArmWindow, ...] = ()
    prefilled_tokens: int = 0
    """Prefilled tokens: prompts, and prefixes of responses begun elsewhere."""
    prefill_s: float = 0.0
    """Duration in seconds of the prefill rounds."""


NO_ROUNDS = WorkedRounds()
