"""What a spot trainer reports to its worker."""

from dataclasses import dataclass

from tlt_common.domain.ids import DrafterVersion, PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """Progress of a spot trainer."""

    training: bool
    steps: int
    """Optimizer steps on the drafter, across restarts."""
    tokens: int
    training_s: float
    """Seconds the device computed for training since the process started; only increases."""
    loss: float
    held_out_top1: float
    drafter_version: DrafterVersion
    """Version last published or adopted."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Version of the policy that training is for."""
    resting: bool = False
    """Whether nothing is left to learn from this policy and the known data."""
    problem: str = ""
    """Why it cannot continue from the fleet's drafter, in a sentence; empty: it can."""
