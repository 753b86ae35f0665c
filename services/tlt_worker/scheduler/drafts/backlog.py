"""
Hidden states that the drafter has not processed, stored by cache slot until its KV cache is completed.

The drafter has its own KV cache with the target's slots. Rounds without the drafter write the target's part only, and
drafting from a cache with holes costs acceptance (never correctness). The target's hidden states, which are computed
anyway, are therefore stored with their slots, and one draft pass over them completes the entries to be read next. They
are stored by slot rather than request, since slots outlive requests: a prompt with a prefix-cache hit on an earlier
response finds its missing states.

Shapes: K new rows, W stored rows, S slots, H hidden size, B requests, L positions.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_FIRST_ROWS = 1024


class Stretch(NamedTuple):
    """Positions start .. end - 1 of the request at index `place` of a batch."""

    place: int
    start: int
    end: int


@dataclass(slots=True, kw_only=True)
class Backlog:
    """
    Hidden states by slot, each with the token that follows it. Beyond `limit_bytes`, new states replace the oldest.

    Rows are numbered consecutively; row n is stored at n modulo W while it is among the last W.
    """

    slot_count: int
    """Slots of the cache, S. The value S itself means no slot."""
    limit_bytes: int
    max_rows: int = 0
    """Maximum number of rows; 0 before the first row is stored."""
    _next: int = 0
    _hidden: Tensor | None = field(default=None, repr=False)
    """[W, H]"""
    _tokens: Tensor | None = field(default=None, repr=False)
    """[W]"""
    _row_of: Tensor | None = field(default=None, repr=False)
    """[S + 1] row number of each slot, -1 if the drafter has processed it."""

    def __bool__(self) -> bool:
        return self._next > 0

    def put(self, slots_K: Tensor, hidden_KH: Tensor, tokens_K: Tensor) -> None:
        """Store the states of slots whose tokens the target has just computed."""
        row_bytes = hidden_KH.shape[1] * hidden_KH.element_size()
        max_rows = self.max_rows = max(1, min(self.slot_count, self.limit_bytes // row_bytes))
        slots_K, hidden_KH, tokens_K = slots_K[-max_rows:], hidden_KH[-max_rows:], tokens_K[-max_rows:]
        hidden_WH, tokens_W, row_of_S = self._buffers(max_rows, slots_K, hidden_KH, tokens_K)
        rows_K = torch.arange(self._next, self._next + len(slots_K), device=slots_K.device)
        for low, high in self._places(len(slots_K), len(tokens_W)):
            part = slice(low - self._next, high - self._next)
            place = slice(low % len(tokens_W), (high - 1) % len(tokens_W) + 1)
            hidden_WH[place], tokens_W[place] = hidden_KH[part], tokens_K[part]
        row_of_S.scatter_reduce_(0, slots_K.to(torch.int64), rows_K, "amax")
        self._next += len(slots_K)

    def drop(self, slots_K: Tensor) -> None:
        """Drop slots that the drafter has written."""
        if self._row_of is not None:
            self._row_of.index_fill_(0, slots_K.to(torch.int64), -1)

    def rows(self, slots: Tensor) -> Tensor:
        """Return the rows of slots, -1 where the drafter has processed them or they have been replaced."""
        if self._row_of is None or self._hidden is None:
            return torch.full_like(slots, -1, dtype=torch.int64)
        rows = self._row_of[slots.to(torch.int64)]
        return torch.where((rows >= self._next - len(self._hidden)) & (slots < self.slot_count), rows, -1)

    def at(self, rows_K: Tensor) -> tuple[Tensor, Tensor]:
        """Return states [K, H] and the tokens [K] that follow them; zeros for rows below 0."""
        assert self._hidden is not None, "rows of an empty backlog"  # noqa: S101 - a bug, not an input
        assert self._tokens is not None, "rows of an empty backlog"  # noqa: S101 - same
        place_K, is_none_K = rows_K % len(self._hidden), rows_K < 0
        hidden_KH = self._hidden[place_K].masked_fill_(is_none_K.unsqueeze(1), 0.0)
        return hidden_KH, self._tokens[place_K].masked_fill_(is_none_K, 0)

    def _places(self, count: int, size: int) -> list[tuple[int, int]]:
        """Return the numbers of the next `count` rows, split into runs that are contiguous in a ring of `size` rows."""
        low, high = self._next, self._next + count
        turn = (low // size + 1) * size
        return [(low, high)] if high <= turn else [(low, turn), (turn, high)]

    def _buffers(
        self, max_rows: int, slots_K: Tensor, hidden_KH: Tensor, tokens_K: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the buffers, grown on demand up to `max_rows` rows: GPU memory is allocated only when needed."""
        if self._hidden is None or self._tokens is None or self._row_of is None:
            self._row_of = torch.full((self.slot_count + 1,), -1, dtype=torch.int64, device=slots_K.device)
            self._hidden = hidden_KH.new_empty(min(max_rows, _FIRST_ROWS), hidden_KH.shape[1])
            self._tokens = tokens_K.new_empty(len(self._hidden))
        needed = self._next + len(slots_K)
        while len(self._hidden) < min(max_rows, needed):
            grown = min(max_rows, 2 * len(self._hidden)) - len(self._hidden)
            self._hidden = torch.cat([self._hidden, self._hidden.new_empty(grown, self._hidden.shape[1])])
            self._tokens = torch.cat([self._tokens, self._tokens.new_empty(grown)])
        return self._hidden, self._tokens, self._row_of


def wanted(spans: list[Stretch], kept_BL: Tensor, length_B: Tensor) -> tuple[list[Stretch], list[int]]:
    """
    Return the stored positions within spans, and the length of each request. Waits for the device once.

    Args:
        spans: One per request; its end may lie beyond the request's.
        kept_BL: Rows of the positions from each span's start on, -1 where nothing is stored.
        length_B: Positions of each request.
    """
    # One copy for both: each would make the host wait.
    found = torch.cat((length_B.view(-1, 1).to(kept_BL.dtype), kept_BL), 1).cpu().numpy()
    lengths, kept = found[:, 0].tolist(), found[:, 1:] >= 0
    for row, span in enumerate(spans):
        kept[row, max(0, min(span.end, lengths[row]) - span.start) :] = False
    change = np.diff(kept.astype(np.int8), axis=1, prepend=0, append=0)
    starts, ends = np.argwhere(change == 1).tolist(), np.argwhere(change == -1).tolist()
    parts = [
        Stretch(spans[row].place, spans[row].start + start, spans[row].start + end)
        for (row, start), (_, end) in zip(starts, ends, strict=True)
    ]
    return parts, lengths


def passes(parts: list[Stretch], *, max_tokens: int, max_stretches: int) -> list[list[Stretch]]:
    """Split stretches into draft passes of bounded size, in order."""
    made: list[list[Stretch]] = [[]]
    room = max_tokens
    for place, start, end in parts:
        low = start
        while low < end:
            if room == 0 or len(made[-1]) == max_stretches:
                made.append([])
                room = max_tokens
            high = min(end, low + room)
            made[-1].append(Stretch(place, low, high))
            room -= high - low
            low = high
    return [one for one in made if one]
