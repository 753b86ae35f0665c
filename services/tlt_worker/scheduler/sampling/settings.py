"""Sampling settings of a round's requests, stored where our hooks and SGLang's code read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tlt_worker.scheduler.sampling.hooks import is_blocked, seeds_of
from tlt_worker.scheduler.sampling.logprobs import kinds_of, requested_kinds
from tlt_worker.scheduler.sampling.penalties import Penalties


class RoundSettings:
    """Settings that SGLang does not support or handles incorrectly: seeds, penalties, logprob kinds."""

    def __init__(self, vocabulary: int) -> None:
        self._penalties = Penalties(vocabulary)

    @contextmanager
    def of(self, batch: Any) -> Iterator[None]:
        """Apply the settings to a batch about to run. SGLang discards the batch's sampling settings after the round."""
        if batch.forward_mode.is_idle():
            yield
            return
        batch.sampling_info.sampling_seed = seeds_of(batch.reqs, batch.device)
        if batch.forward_mode.is_extend():
            self._penalties.begin(batch.reqs, batch.device)
        else:
            self._penalties.follow(batch.reqs, batch.spec_info)
        self._penalties.apply(batch.reqs, batch.sampling_info)
        token = requested_kinds.set(kinds_of(batch.reqs))
        try:
            yield
        finally:
            requested_kinds.reset(token)


def count_proposed(batch: Any, result: Any) -> None:
    """
    Count each request's verified drafts, before SGLang processes the round.

    The count is stored in a field that SGLang uses for another algorithm's verification caps and returns with the
    response.
    """
    if batch.forward_mode.is_extend() or batch.forward_mode.is_idle():
        return
    for req in batch.reqs:
        if not (is_blocked(req) or req.finished() or req.is_retracted):
            req.spec_num_cap_tokens += result.speculative_num_draft_tokens - 1
