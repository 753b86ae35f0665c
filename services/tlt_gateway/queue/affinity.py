"""Tracks which workers have the beginning of a prompt cached, from this gateway's requests. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_gateway.workers.routing import Candidate, RoutingTable

MAX_KNOWN = 65536
"""Sessions and prompts that are remembered, at about 0.5 KiB each; the longest unused ones are forgotten first."""
IDLE_S = 3600.0
"""Seconds after which a session or a prompt without requests is forgotten."""

Keys: TypeAlias = tuple[Hashable, ...]
"""By what a prompt is remembered. Hashing a long one takes longer than looking it up: done once per request."""


@dataclass(slots=True, kw_only=True)
class _Known:
    """Workers on which a session or a prompt was prefilled with the weights of one version."""

    version: PolicyVersion
    workers: dict[WorkerId, tuple[int, int]] = field(default_factory=dict)
    """Tokens sent to each worker, with its number of losses at that time."""
    used_s: float


class Affinity:
    """
    Remembers workers by session and by prompt, so that samples of one prompt share its prefill.

    A worker that was lost may have lost its cache, and cached prefixes are never used with other weights: entries of
    another connection or version do not count.

    Args:
        most: Maximum number of entries.
        idle_s: Seconds after which an unused entry is forgotten.
    """

    def __init__(self, *, most: int = MAX_KNOWN, idle_s: float = IDLE_S) -> None:
        self._most = most
        self._idle_s = idle_s
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of sessions and prompts remembered."""
        return len(self._known)

    def cached(
        self, keys: Keys, table: RoutingTable, *, length: int, version: PolicyVersion, now_s: float
    ) -> dict[WorkerId, int]:
        """
        Return how many of a prompt's tokens each worker has probably cached. Workers with none are omitted.

        Args:
            keys: As `keys_of` returns them.
            table: The workers that accept requests.
            length: Tokens of the prompt.
            version: Policy version served.
            now_s: The time.
        """
        self._expire(now_s)
        found: dict[WorkerId, int] = {}
        for key in keys:
            known = self._known.get(key)
            if known is None or known.version != version:
                continue
            for worker_id, (tokens, lost_before) in known.workers.items():
                one = table.get(worker_id)
                if one is not None and one.losses == lost_before:
                    found[worker_id] = max(min(tokens, length), found.get(worker_id, 0))
        return found

    def sent(self, keys: Keys, to: Candidate, *, tokens: int, version: PolicyVersion, now_s: float) -> None:
        """Record that a worker received a prompt with this many tokens, including the response so far."""
        for key in keys:
            known = self._known.get(key)
            if known is None or known.version != version:
                known = self._known[key] = _Known(version=version, used_s=now_s)
            known.workers[to.worker_id] = (tokens, to.losses)
            known.used_s = now_s
            self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, session_id: str, *, owner: str) -> bool:
        """Forget a session of an owner; return whether it was known."""
        return self._known.pop((owner, session_id), None) is not None

    def _expire(self, now_s: float) -> None:
        while self._known and now_s - next(iter(self._known.values())).used_s > self._idle_s:
            self._known.popitem(last=False)


def keys_of(prompt: Prompt) -> Keys:
    """
    Return the keys of a prompt: its session within its owner, and its tokens within its cache salt.

    A hash collision costs at most one prefill.
    """
    tokens = (prompt.cache_key, hash(prompt.token_ids))
    return ((prompt.owner, prompt.session_id), tokens) if prompt.session_id else (tokens,)
