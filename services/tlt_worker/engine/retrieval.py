"""
Retrieved drafts of running batches: hears what each round brought, and looks up what may come next.

Where the scheduler processes a round before the next one starts (a CPU), requests hold all their tokens. With
overlapped scheduling (a GPU) the last round is not processed when the next one drafts: its tokens are then read from
its result, which is on its way to the CPU anyway, and the wait for it is the price of such a round. Rank 0 of a
tensor-parallel group has the index and hands out what it found, so that no rank drafts for itself.

Batches, requests and results are SGLang's.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_worker.engine.ngram import NgramIndex
from tlt_worker.engine.penalties import prefix_of
from tlt_worker.engine.verification import is_blocked

Found = list[list[int]]
"""Draft tokens per request, as many as there are."""


@dataclass(slots=True, kw_only=True)
class Retrieval:
    """Drafts of an engine's n-gram arms."""

    index: NgramIndex
    leads: bool = True
    """Whether this rank looks things up. The others are told what was found."""
    found: Found = field(default_factory=list)
    """For the round that is drafted next."""
    _launched: deque[tuple[Sequence[Any], Any]] = field(default_factory=deque)
    """Requests and results of rounds that were not processed yet."""

    def find(self, batch: Any, steps: int) -> int:
        """Look for up to `steps` draft tokens of each request; return how many there are in all."""
        late = self._late_tokens()
        self.found = []
        for req in batch.reqs:
            self._hear(req, late.get(req.rid, ()))
            self.found.append([] if is_blocked(req) else self.index.draft(req.rid, steps))
        return sum(map(len, self.found))

    def drafts(self, batch: Any, steps: int) -> Tensor:
        """Return the drafts found as chains [B, steps] of int64; a missing token is a guess that is seldom right."""
        rows = [[*drafts, *[0] * (steps - len(drafts))] for drafts in self.found]
        return torch.tensor(rows, dtype=torch.int64, device=batch.seq_lens.device)

    def launched(self, batch: Any, result: Any) -> None:
        """Note a round that was started."""
        if self.leads:
            self._launched.append((tuple(batch.reqs), result))

    def processed(self, batch: Any, result: Any) -> None:
        """Hear what a round brought, now that its requests hold it."""
        if not self.leads:
            return
        while self._launched and self._launched.popleft()[1] is not result:
            pass
        for req in batch.reqs:
            if not req.finished():
                self._hear(req, ())
            elif self.index.length(req.rid) is not None:
                self._hear(req, ())
                self.index.finish(req.rid, prefix_of(req) + len(req.output_ids_through_stop))

    def _hear(self, req: Any, late: Sequence[int]) -> None:
        """Tell the index what it does not know yet of a request, `late` being what the request itself does not hold."""
        prefix, known = prefix_of(req), self.index.length(req.rid)
        held = prefix + len(req.output_ids)
        if known is None or known > held + len(late):
            # More was told than there is now: a round's tokens were thrown away, with the request's cache.
            prompt = len(req.origin_input_ids) - prefix
            self.index.begin(req.rid, req.origin_input_ids[:prompt])
            self.index.extend(req.rid, req.origin_input_ids[prompt:])
            known = prefix
        if known < held:
            self.index.extend(req.rid, req.output_ids[known - prefix :])
            known = held
        if late and known < held + len(late):
            self.index.extend(req.rid, late[known - held :])

    def _late_tokens(self) -> dict[str, list[int]]:
        """Read what rounds that were not processed yet have brought each request."""
        late: dict[str, list[int]] = {}
        for reqs, result in self._launched:
            if not reqs:  # a rank that idles makes no tokens
                continue
            if result.copy_done is not None:
                result.copy_done.synchronize()
            tokens = result.next_token_ids.tolist()
            counts = [1] * len(reqs) if result.accept_lens is None else result.accept_lens.tolist()
            stride = len(tokens) // len(reqs)
            for place, (req, count) in enumerate(zip(reqs, counts, strict=True)):
                late.setdefault(req.rid, []).extend(tokens[place * stride : place * stride + count])
        return late
