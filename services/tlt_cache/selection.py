"""Which frames a training batch is made of. Pure and seeded."""

import random
from collections.abc import Iterable

from tlt_cache.entry import Entry, response_lengths

LAST_STEP_SHARE = 0.25
"""Of a batch: long responses of the policy before the newest. While a step runs, its long responses exist only in
part, and their ends are what the tail consists of; the last step's are whole (TLT: one-step offset)."""


def choose(entries: Iterable[Entry], *, max_tokens: int, seed: int, min_policy_version: int = 0) -> tuple[Entry, ...]:
    """
    Choose frames with at most `max_tokens` states in all; at least one if there is one that small.

    Newest policy first, the last step's long responses mixed in, older policies where there is still room. Within a
    policy long responses are likelier: by length, without replacement.
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
        self._chosen: set[int] = set()
        self.entries: list[Entry] = []

    def fill(self, entries: Iterable[Entry], *, up_to: int) -> None:
        for entry in entries:
            if self._tokens + entry.tokens <= up_to and entry.sequence not in self._chosen:
                self._chosen.add(entry.sequence)
                self._tokens += entry.tokens
                self.entries.append(entry)


def _ranked(entries: list[Entry], lengths: dict[str, int], rng: random.Random) -> list[Entry]:
    """Weighted order without replacement: the largest u ** (1 / weight) first (Efraimidis and Spirakis, 2006)."""
    keyed = [(rng.random() ** (1 / max(1, lengths[entry.request_id])), entry) for entry in entries]
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0], reverse=True)]


def _long(entries: list[Entry], lengths: dict[str, int]) -> list[Entry]:
    """Keep the frames of responses that are at least as long as the median frame's."""
    median = sorted(lengths[entry.request_id] for entry in entries)[len(entries) // 2]
    return [entry for entry in entries if lengths[entry.request_id] >= median]
