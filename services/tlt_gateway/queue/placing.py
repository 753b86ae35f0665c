"""Which worker gets the next request, by load, role and what workers have cached. Pure: times come from the caller."""

from collections.abc import Collection

from tlt_common.domain.ids import PolicyVersion
from tlt_gateway.queue.affinity import Affinity, Keys
from tlt_gateway.workers.routing import NOTHING, Candidate, choose


class Placing:
    """
    Args:
        spill_load: As for `choose`.
        affinity_tokens: As for `choose`; None ignores what workers have cached.

    Attributes:
        pack: As for `choose`.
    """

    def __init__(self, *, spill_load: float, affinity_tokens: int | None) -> None:
        self._spill_load = spill_load
        self._affinity_tokens = affinity_tokens
        self._affinity = Affinity()
        self.pack = 0

    @property
    def uses_keys(self) -> bool:
        """Whether it matters by what a prompt is remembered."""
        return self._affinity_tokens is not None

    def place(
        self,
        candidates: Collection[Candidate],
        keys: Keys,
        *,
        prompt_tokens: int,
        tokens: int,
        served: PolicyVersion,
        now_s: float,
        required: PolicyVersion | None = None,
    ) -> Candidate | None:
        """
        Return the worker for a request, and remember that it has its tokens cached; None: none has room.

        Args:
            candidates: Workers that accept requests.
            keys: By what the prompt is remembered.
            prompt_tokens: Tokens of the prompt.
            tokens: The same, with what there is of the response.
            served: Version of the weights.
            now_s: Current time.
            required: Version that the worker must serve; None: any.
        """
        cached = NOTHING
        if keys:
            cached = self._affinity.cached(keys, candidates, length=prompt_tokens, version=served, now_s=now_s)
        chosen = choose(
            candidates,
            version=required,
            spill_load=self._spill_load,
            cached=cached,
            affinity_tokens=self._affinity_tokens or 1,
            pack=self.pack,
        )
        if chosen is not None:
            self._affinity.sent(keys, chosen, tokens=tokens, version=served, now_s=now_s)
        return chosen

    def forget(self, session_id: str, *, owner: str) -> bool:
        """Forget a session of an owner; return whether it was known."""
        return self._affinity.forget(session_id, owner=owner)
