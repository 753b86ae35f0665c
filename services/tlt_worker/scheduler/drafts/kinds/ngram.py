"""
Drafts of n-gram arms: indexes each round's tokens and looks up likely continuations.

If the scheduler processes a round before the next one starts (CPU), requests hold all their tokens. With overlapped
scheduling (GPU) the last round has not been processed when the next one drafts: its tokens are then read from its
result, which is being copied to the CPU anyway, and such a round waits for that copy. Rank 0 of a tensor-parallel group
holds the index and broadcasts the drafts it found, so that ranks do not draft separately.

Batches, requests and results are SGLang's.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.arm import NGRAM_BYTES
from tlt_worker.link.settings import LinkSettings
from tlt_worker.scheduler.drafts.ngram_index import NgramIndex
from tlt_worker.scheduler.drafts.source import Found, register
from tlt_worker.scheduler.sampling.hooks import is_blocked
from tlt_worker.scheduler.sampling.penalties import prefix_of
from tlt_worker.scheduler.sent import sent


@dataclass(slots=True, kw_only=True)
class Retrieval:
    """Drafts of an engine's n-gram arms. See `DraftSource`."""

    index: NgramIndex
    leads: bool = True
    """Whether this rank looks up drafts. The other ranks receive its drafts."""
    found: Found = field(default_factory=list)
    """Drafts of the next drafting round."""
    _launched: deque[tuple[Sequence[Any], Any]] = field(default_factory=deque)
    """Requests and results of rounds that have not been processed yet."""

    @property
    def size_bytes(self) -> int:
        """Memory held by the index."""
        return self.index.size_bytes

    def find(self, batch: Any, steps: int) -> int:
        """Look up at most `steps` draft tokens for each request; return their total number."""
        late = self._late_tokens()
        self.found = []
        for req in batch.reqs:
            self._sync(req, late.get(req.rid, ()))
            self.found.append([] if is_blocked(req) else self.index.draft(req.rid, steps))
        return sum(map(len, self.found))

    def drafts(self, batch: Any, steps: int) -> Tensor:
        """Return the drafts found as chains [B, steps], int64; missing tokens are padded with an unlikely token."""
        rows = [[*drafts, *[0] * (steps - len(drafts))] for drafts in self.found]
        return sent(rows, batch.seq_lens.device, torch.int64)

    def launched(self, batch: Any, result: Any) -> None:
        """Record a launched round."""
        if self.leads:
            self._launched.append((tuple(batch.reqs), result))

    def processed(self, batch: Any, result: Any) -> None:
        """Index a round's tokens, now that its requests hold them."""
        if not self.leads:
            return
        while self._launched and self._launched.popleft()[1] is not result:
            pass
        for req in batch.reqs:
            if not req.finished():
                self._sync(req, ())
            elif self.index.length(req.rid) is not None:
                self._sync(req, ())
                self.index.finish(req.rid, prefix_of(req) + len(req.output_ids_through_stop))

    def _sync(self, req: Any, late: Sequence[int]) -> None:
        """Add a request's new tokens to the index; `late` are tokens that the request does not hold yet."""
        prefix, known = prefix_of(req), self.index.length(req.rid)
        held = prefix + len(req.output_ids)
        if known is None or known > held + len(late):
            # The index has more tokens than the request: a round was discarded together with the request's cache.
            prompt = len(req.origin_input_ids) - prefix
            self.index.begin(req.rid, req.origin_input_ids[:prompt], req.cache_salt or "")
            self.index.extend(req.rid, req.origin_input_ids[prompt:])
            known = prefix
        if known < held:
            self.index.extend(req.rid, req.output_ids[known - prefix :])
            known = held
        if late and known < held + len(late):
            self.index.extend(req.rid, late[known - held :])

    def _late_tokens(self) -> dict[str, list[int]]:
        """Return each request's tokens from rounds that have not been processed yet."""
        late: dict[str, list[int]] = {}
        for reqs, result in self._launched:
            if not reqs:  # an idle rank produces no tokens
                continue
            if result.copy_done is not None:
                result.copy_done.synchronize()
            tokens = result.next_token_ids.numpy().tolist()  # in the host's memory, as are the counts
            counts = [1] * len(reqs) if result.accept_lens is None else result.accept_lens.numpy().tolist()
            stride = len(tokens) // len(reqs)
            for place, (req, count) in enumerate(zip(reqs, counts, strict=True)):
                late.setdefault(req.rid, []).extend(tokens[place * stride : place * stride + count])
        return late


def _make(_settings: LinkSettings, leads: bool) -> Retrieval:
    return Retrieval(index=NgramIndex(NGRAM_BYTES), leads=leads)


register("ngram", _make)
