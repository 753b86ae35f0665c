"""Selects frames for a training batch. Pure and seeded."""

import random
from collections.abc import Iterable

from tlt_cache.entry import Entry, response_lengths

LAST_STEP_SHARE = 0.25
"""Share of a batch for long responses of the previous policy. While a step runs, its long responses are
incomplete, and the tail consists of their ends; those of the last step are complete (TLT: one-step offset)."""


def choose(entries: Iterable[Entry], *, max_tokens: int, seed: int, min_policy_version: int = 0) -> tuple[Entry, ...]:
    """
    Choose frames with at most `max_tokens` states in total; at least one if any frame is that small.

    Frames of the newest policy come first, mixed with long responses of the last step, then older policies fill the
    remaining room. Within a policy frames are drawn without replacement, weighted by response length.
    """
    eligible = tuple(entry for entry in entries if entry.policy_version >= min_policy_version)
    lengths, rng = response_lengths(eligible), random.Random(seed)
    by_policy: dict[int, list[Entry]] = {}
    for entry in sorted(eligible, key=lambda entry: entry.sequence):
        by_policy.setdefault(entry.policy_version, []).append(entry)
    ranked = [_ranked(by_policy[version], lengths, rng) for version in sorted(by_policy, reverse=True)]
    batch = _Batch(max_tokens)
    if len(ranked) > 1:
        batch.fill(_long(ranked[1], lengths), up_to=int(LAST_STEP_SHARE * max_tokens))
    for group in ranked:
        batch.fill(group, up_to=max_tokens)
    rng.shuffle(batch.entries)
    return tuple(batch.entries)


class _Batch:
    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._tokens = 0
        self._chosen: set[tuple[int, int]] = set()
        self.entries: list[Entry] = []

    def fill(self, entries: Iterable[Entry], *, up_to: int) -> None:
        for entry in entries:
            key = (entry.shard, entry.sequence)
            if self._tokens + entry.tokens <= up_to and key not in self._chosen:
                self._chosen.add(key)
                self._tokens += entry.tokens
                self.entries.append(entry)


def _ranked(entries: list[Entry], lengths: dict[str, int], rng: random.Random) -> list[Entry]:
    """Draw a weighted order without replacement: largest u ** (1 / weight) first (Efraimidis and Spirakis, 2006)."""
    keyed = [(rng.random() ** (1 / max(1, lengths[entry.request_id])), entry) for entry in entries]
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0], reverse=True)]


def _long(entries: list[Entry], lengths: dict[str, int]) -> list[Entry]:
    """Return the frames of responses that are at least as long as the median frame's."""
    median = sorted(lengths[entry.request_id] for entry in entries)[len(entries) // 2]
    return [entry for entry in entries if lengths[entry.request_id] >= median]
