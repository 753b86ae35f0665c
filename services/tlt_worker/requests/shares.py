"""How a worker divides its slots among gateways. Pure."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def max_min(slots: int, demands: Mapping[Key, int]) -> dict[Key, int]:
    """
    Divide slots max-min fairly: nobody gets more than it demands while another, who demands more, gets less.

    Slots that nobody demands are divided equally, so that the first request of an idle gateway need not ask. The shares
    add up to `slots`, except that whoever demands any gets at least one: with fewer slots than gateways, the engine's
    own queue takes turns. Where shares cannot be equal, earlier keys get one more.

    Args:
        slots: Slots to divide, at least 0.
        demands: Requests that each would run now, at least 0.
    """
    shares: dict[Key, int] = {}
    left = slots
    by_demand = sorted(demands, key=lambda key: demands[key])  # stable: ties stay in the caller's order
    for index, key in enumerate(by_demand):
        share = min(demands[key], max(1, -(-left // (len(by_demand) - index))))
        shares[key] = share
        left = max(0, left - share)
    for index, key in enumerate(demands):
        spare = -(-left // (len(demands) - index))
        shares[key] += spare
        left -= spare
    return shares
