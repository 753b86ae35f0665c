"""Chooses the worker for the next request by load, role and cached prefixes. Pure: callers pass the time."""

from tlt_common.domain.ids import PolicyVersion
from tlt_gateway.queue.affinity import Affinity, Keys
from tlt_gateway.workers.routing import NOTHING, Candidate, RoutingTable


class Placing:
    """
    Args:
        spill_load: As for `RoutingTable`.
        affinity_tokens: As for `RoutingTable.choose`.

    Attributes:
        table: The workers that accept requests. The caller keeps it up to date.
    """

    def __init__(self, *, spill_load: float, affinity_tokens: int) -> None:
        self.table = RoutingTable(spill_load=spill_load)
        self._affinity_tokens = affinity_tokens
        self._affinity = Affinity()

    def place(
        self,
        keys: Keys,
        *,
        prompt_tokens: int,
        tokens: int,
        served: PolicyVersion,
        now_s: float,
        required: PolicyVersion | None = None,
    ) -> Candidate | None:
        """
        Choose the worker for a request and record that it will have the tokens cached. Return None if no worker has
        room.

        Args:
            keys: Cache keys of the prompt.
            prompt_tokens: Tokens of the prompt.
            tokens: Tokens of the prompt and of the response so far.
            served: Version of the weights.
            now_s: Current time.
            required: Version that the worker must serve; None: any.
        """
        cached = NOTHING
        if keys:
            cached = self._affinity.cached(keys, self.table, length=prompt_tokens, version=served, now_s=now_s)
        chosen = self.table.choose(version=required, cached=cached, affinity_tokens=self._affinity_tokens)
        if chosen is not None:
            self._affinity.sent(keys, chosen, tokens=tokens, version=served, now_s=now_s)
        return chosen

    def forget(self, session_id: str, *, owner: str) -> bool:
        """Forget a session of an owner; return whether it was known."""
        return self._affinity.forget(session_id, owner=owner)
