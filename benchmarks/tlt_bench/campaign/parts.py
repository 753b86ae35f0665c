"""The parts of the campaign."""

from collections.abc import Iterable, Sequence
from typing import Final

from tlt_bench.campaign.kills.part import PART as KILLS
from tlt_bench.campaign.network.part import PART as NETWORK
from tlt_bench.campaign.part import Part
from tlt_bench.campaign.storage.part import PART as STORAGE
from tlt_bench.engines.prepare import check_parts

PARTS: Final = (KILLS, NETWORK, STORAGE)


def chosen(names: Sequence[str] | None) -> tuple[Part, ...]:
    """
    Return the parts with these names, or all parts if there are none.

    Raises:
        ConfigError: A name is unknown.
    """
    known = tuple(part.name for part in PARTS)
    wanted = check_parts(names or known, known)
    return tuple(part for part in PARTS if part.name in wanted)


def share_s(part: Part, later: Iterable[Part], left_s: float) -> float:
    """Return the time of a part in seconds, given the remaining parts and the total time left."""
    return max(0.0, left_s) * part.weight / (part.weight + sum(other.weight for other in later))
