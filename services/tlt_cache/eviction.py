"""Chooses frames to evict. Pure."""

from collections.abc import Sequence

from tlt_cache.entry import Entry, response_lengths

LOW_WATER = 0.9
"""Evict down to this share of the budget, so that evictions are rare."""


def spare_bytes(*, used_bytes: int, needed_bytes: int, budget_bytes: int) -> int:
    """Return the number of bytes to evict so that `needed_bytes` fit."""
    if used_bytes + needed_bytes <= budget_bytes:
        return 0
    return used_bytes - max(0, int(LOW_WATER * budget_bytes) - needed_bytes)


def victims(entries: Sequence[Entry], spare: int) -> tuple[Entry, ...]:
    """
    Choose frames of at least `spare` bytes to evict: oldest policy first, then short responses, then oldest frames.

    Long responses are kept longest: they benefit most from drafting and are the scarcest.
    """
    lengths = response_lengths(entries)
    chosen: list[Entry] = []
    for entry in sorted(entries, key=lambda e: (e.policy_version, lengths[e.request_id], e.sequence)):
        if spare <= 0:
            break
        chosen.append(entry)
        spare -= entry.size_bytes
    return tuple(chosen)
