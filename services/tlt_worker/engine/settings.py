"""What the requests of a round ask of sampling, laid where our hooks and SGLang's own code look for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tlt_worker.engine.logprobs import asked, kinds_of
from tlt_worker.engine.penalties import Penalties
from tlt_worker.engine.verification import is_blocked, seeds_of


class RoundSettings:
    """Settings that SGLang has no place for or keeps wrongly: seeds, penalties, kinds of logprobs."""

    def __init__(self, vocabulary: int) -> None:
        self._penalties = Penalties(vocabulary)

    @contextmanager
    def of(self, batch: Any) -> Iterator[None]:
        """Apply them to a batch about to run. Its sampling settings are this round's own, which SGLang drops after."""
        if batch.forward_mode.is_idle():
            yield
            return
        batch.sampling_info.sampling_seed = seeds_of(batch.reqs, batch.device)
        if batch.forward_mode.is_extend():
            self._penalties.begin(batch.reqs, batch.device)
        else:
            self._penalties.follow(batch.reqs, batch.spec_info)
        self._penalties.apply(batch.reqs, batch.sampling_info)
        token = asked.set(kinds_of(batch.reqs))
        try:
            yield
        finally:
            asked.reset(token)


def count_proposed(batch: Any, result: Any) -> None:
    """
    Count each request's verified drafts, before SGLang processes the round.

    They go where another of its algorithms counts verification caps, so that SGLang brings them to the response.
    """
    if batch.forward_mode.is_extend() or batch.forward_mode.is_idle():
        return
    for req in batch.reqs:
        if not (is_blocked(req) or req.finished() or req.is_retracted):
            req.spec_num_cap_tokens += result.speculative_num_draft_tokens - 1
