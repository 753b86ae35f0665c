"""
What the drafter missed while it was off, kept so that its cache can be rebuilt.

A drafter reads its own key/value cache. While speculation is off nobody writes it, and drafting from a cache with
holes costs acceptance (never correctness). So the target's hidden states, which exist anyway, are kept per request up
to a bound, and one draft pass over them closes the gap on the way on.

Shapes: K new rows, C capacity, H hidden size.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

_FIRST_CAPACITY = 64


@dataclass(slots=True)
class Gap:
    """A stretch of one request: states from `start` on, each with the token that follows it."""

    start: int
    limit: int
    count: int = 0
    _hidden: Tensor | None = None
    """[C, H]"""
    _tokens: Tensor | None = None
    """[C]"""

    @property
    def end(self) -> int:
        """Position after the last state."""
        return self.start + self.count

    @property
    def hidden(self) -> Tensor:
        """States [count, H]."""
        assert self._hidden is not None, "an empty gap has no states"  # noqa: S101 - a bug, not an input
        return self._hidden[: self.count]

    @property
    def tokens(self) -> Tensor:
        """Tokens [count] that follow the states."""
        assert self._tokens is not None, "an empty gap has no tokens"  # noqa: S101 - a bug, not an input
        return self._tokens[: self.count]

    def append(self, hidden_KH: Tensor, tokens_K: Tensor) -> None:
        """Keep K more states; beyond the limit the oldest quarter goes, so that dropping is rare."""
        hidden_KH, tokens_K = hidden_KH[-self.limit :], tokens_K[-self.limit :]
        new = hidden_KH.shape[0]
        if self.count + new > self.limit:
            self._drop(max(self.limit // 4, self.count + new - self.limit))
        hidden_CH, tokens_C = self._with_room(new, hidden_KH, tokens_K)
        hidden_CH[self.count : self.count + new] = hidden_KH
        tokens_C[self.count : self.count + new] = tokens_K
        self.count += new

    def _drop(self, oldest: int) -> None:
        oldest = min(oldest, self.count)
        if self._hidden is not None and self._tokens is not None:
            self._hidden = self._hidden[oldest : self.count].clone()
            self._tokens = self._tokens[oldest : self.count].clone()
        self.start += oldest
        self.count -= oldest

    def _with_room(self, new: int, hidden_KH: Tensor, tokens_K: Tensor) -> tuple[Tensor, Tensor]:
        if self._hidden is None or self._tokens is None:
            capacity = max(_FIRST_CAPACITY, new)
            self._hidden = hidden_KH.new_empty(capacity, hidden_KH.shape[1])
            self._tokens = tokens_K.new_empty(capacity)
        while self.count + new > self._hidden.shape[0]:
            self._hidden = torch.cat([self._hidden, torch.empty_like(self._hidden)])
            self._tokens = torch.cat([self._tokens, torch.empty_like(self._tokens)])
        return self._hidden, self._tokens


@dataclass(slots=True, kw_only=True)
class Gaps:
    """Gaps of the running requests."""

    limit: int
    _gaps: dict[str, Gap] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def append(self, request_id: str, position: int, hidden_KH: Tensor, tokens_K: Tensor) -> None:
        """Keep states from `position` on. A stretch that does not join the last one replaces it."""
        gap = self._gaps.get(request_id)
        if gap is None or gap.end != position:
            gap = self._gaps[request_id] = Gap(start=position, limit=self.limit)
        gap.append(hidden_KH, tokens_K)

    def pop(self, request_id: str, end: int) -> Gap | None:
        """Take out a request's gap if it reaches up to `end`; one that does not is of no use."""
        gap = self._gaps.pop(request_id, None)
        return gap if gap is not None and gap.end == end else None

    def forget(self, request_id: str) -> None:
        """Drop a request's gap."""
        self._gaps.pop(request_id, None)
