"""What goes when room is needed. Pure."""

from tlt_cache.entry import Entry, response_lengths

LOW_WATER = 0.9
"""Eviction makes room down to this share of the budget, so that it is rare: it reads the whole index."""


def victims(entries: tuple[Entry, ...], *, needed_bytes: int, budget_bytes: int) -> tuple[Entry, ...]:
    """
    Choose what to evict so that `needed_bytes` fit: oldest policy first, then short responses, then oldest frame.

    Long responses are what drafting is for, and what the engine has least of; they stay longest.
    """
    used = sum(entry.size_bytes for entry in entries)
    if used + needed_bytes <= budget_bytes:
        return ()
    spare = used - max(0, int(LOW_WATER * budget_bytes) - needed_bytes)
    lengths = response_lengths(entries)
    chosen: list[Entry] = []
    for entry in sorted(entries, key=lambda e: (e.policy_version, lengths[e.request_id], e.sequence)):
        if spare <= 0:
            break
        chosen.append(entry)
        spare -= entry.size_bytes
    return tuple(chosen)
