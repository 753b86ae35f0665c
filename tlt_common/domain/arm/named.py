"""Arms by name."""

from collections.abc import Sequence

from tlt_common.domain.arm.arm import KINDS, Arm
from tlt_common.domain.arm.kinds.chain import chain
from tlt_common.domain.arm.kinds.off import OFF

DEFAULT_ARMS: tuple[Arm, ...] = (OFF, chain(3), chain(7))
"""Off, short and long: on the demo's CPU model, chains of 3 and 7 bracket the optimum at batch sizes 1 to 16."""


def arm_named(name: str) -> Arm:
    """
    Return the arm with this name.

    Raises:
        ValueError: The arm is unknown or cannot run; the message states what is accepted.
    """
    for kind in KINDS.values():
        if (arm := kind.parse(name)) is not None:
            return arm
    raise ValueError(f"unknown arm {name!r}; accepted: {_accepted()}")


def arms_named(names: Sequence[str]) -> tuple[Arm, ...]:
    """
    Return the arms of these names, in order.

    Raises:
        ValueError: There are no names, one is unknown, or two denote the same arm; the message states what is accepted.
    """
    if not names:
        raise ValueError(f"the list of arms is empty; accepted: {_accepted()}")
    arms = tuple(map(arm_named, names))
    twice = [arm.name for place, arm in enumerate(arms) if arm in arms[:place]]
    if twice:
        raise ValueError(f"{twice[0]!r} is listed twice; list each arm once")
    return arms


def _accepted() -> str:
    return "; ".join(kind.accepted for kind in KINDS.values())
