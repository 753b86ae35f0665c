"""
Hidden-state capture: from what a round left behind to frames.

State t of a request is what the drafter reads of the target at position t, computed from tokens up to t: with EAGLE
its last hidden state, with EAGLE-3 those of a low, a middle and a high layer, side by side. Rows are taken when SGLang
has processed a round's result, so that the tokens are those the request really got. Whether a request is captured is
decided before anything is copied.

Shapes: R rows of a round, H elements of a state.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_worker.engine.penalties import prefix_of
from tlt_worker.engine.rid import request_id

DTYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}

MAX_TRAILS = 4096
"""Requests remembered at once. Aborted ones are never seen to finish; beyond this the oldest is forgotten."""


def is_sampled(request_id: str, policy: CapturePolicy) -> bool:
    """Whether a request is captured: the same answer in every engine, for as long as the policy stands."""
    return policy.enabled and zlib.crc32(request_id.encode()) < policy.sample_ratio * 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A stretch of one request, ready to be kept."""

    request_id: RequestId
    prompt_tokens: int
    position: int
    """Of the first state."""
    first_row: int
    """Where its states begin in the round's tensor."""
    token_ids: Sequence[int]
    """Ids at position .. position + n for n states."""

    @property
    def count(self) -> int:
        """Number of states, n."""
        return len(self.token_ids) - 1


@dataclass(slots=True, kw_only=True)
class _Trail:
    prompt_tokens: int
    policy_version: PolicyVersion
    start: int
    token_ids: list[int]
    parts: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Position after the last state."""
        return self.start + len(self.token_ids) - 1


@dataclass(slots=True, kw_only=True)
class Tap:
    """Collects states per request and sends them in frames."""

    send: Callable[[HiddenFrame], object]
    policy: CapturePolicy = field(default_factory=lambda: CapturePolicy(enabled=False))
    _trails: dict[str, _Trail] = field(default_factory=dict)
    _dtype: str = "BF16"
    _state_size: int = 0

    def take(self, hidden_RH: Tensor, stretches: Sequence[Rows], version: PolicyVersion) -> None:
        """Keep the states of `stretches`, rows of `hidden_RH`, computed under `version`."""
        wanted = [fresh for rows in stretches if (fresh := self._fresh(rows)) is not None]
        if not wanted:
            return
        index = [row for rows in wanted for row in range(rows.first_row, rows.first_row + rows.count)]
        states_RH = hidden_RH[torch.tensor(index, device=hidden_RH.device)].cpu().contiguous()
        raw = memoryview(states_RH.view(torch.uint8).numpy().data).cast("B")
        self._state_size = states_RH.shape[1]
        row_bytes = self._state_size * states_RH.element_size()
        done = 0
        for rows in wanted:
            size = rows.count * row_bytes
            self._append(rows, raw[done : done + size], version, DTYPES[states_RH.dtype], row_bytes)
            done += size

    def finish(self, request_id: RequestId, response_tokens: int) -> None:
        """Send what is left of a request that ended."""
        trail = self._trails.pop(request_id, None)
        if trail is not None and trail.parts:
            self._send(request_id, trail, response_tokens=response_tokens, finished=True)

    def _fresh(self, rows: Rows) -> Rows | None:
        """Leave out what was taken before: a request whose cache was dropped runs through its tokens again."""
        trail = self._trails.get(rows.request_id)
        skip = max(0, trail.end - rows.position) if trail is not None else 0
        if skip >= rows.count:
            return None
        return Rows(
            request_id=rows.request_id,
            prompt_tokens=rows.prompt_tokens,
            position=rows.position + skip,
            first_row=rows.first_row + skip,
            token_ids=rows.token_ids[skip:],
        )

    def _append(self, rows: Rows, raw: memoryview, version: PolicyVersion, dtype: str, row_bytes: int) -> None:
        trail = self._trails.get(rows.request_id)
        if trail is None or trail.end != rows.position or trail.policy_version != version:
            if trail is not None and trail.parts:
                self._send(rows.request_id, trail, response_tokens=trail.end - trail.prompt_tokens, finished=False)
            trail = self._begin(rows, version)
        room = self.policy.frame_tokens
        self._dtype = dtype
        taken = 0
        while taken < rows.count:
            count = min(rows.count - taken, room - (len(trail.token_ids) - 1))
            trail.parts.append(bytes(raw[taken * row_bytes : (taken + count) * row_bytes]))
            trail.token_ids.extend(rows.token_ids[taken + 1 : taken + count + 1])
            taken += count
            if len(trail.token_ids) - 1 >= room:
                self._send(rows.request_id, trail, response_tokens=trail.end + 1 - trail.prompt_tokens, finished=False)
                trail.start, trail.token_ids, trail.parts = trail.end, trail.token_ids[-1:], []

    def _begin(self, rows: Rows, version: PolicyVersion) -> _Trail:
        trail = _Trail(
            prompt_tokens=rows.prompt_tokens,
            policy_version=version,
            start=rows.position,
            token_ids=[rows.token_ids[0]],
        )
        if len(self._trails) >= MAX_TRAILS:
            self._trails.pop(next(iter(self._trails)))
        self._trails[rows.request_id] = trail
        return trail

    def _send(self, request_id: str, trail: _Trail, *, response_tokens: int, finished: bool) -> None:
        self.send(
            HiddenFrame(
                request_id=RequestId(request_id),
                policy_version=trail.policy_version,
                start=trail.start,
                token_ids=tuple(trail.token_ids),
                hidden_size=self._state_size,
                dtype=self._dtype,
                hidden=b"".join(trail.parts),
                prompt_tokens=trail.prompt_tokens,
                response_tokens=max(0, response_tokens),
                finished=finished,
            )
        )


def stretches_of(batch: Any, result: Any, lengths_before: Sequence[int], policy: CapturePolicy) -> list[Rows]:
    """
    Find each captured request's rows in a processed round. `batch` and `result` are SGLang's.

    `lengths_before` are the response lengths before the result was processed: what was added since is what the round
    brought, whatever was accepted beyond an end token.
    """
    extends = batch.forward_mode.is_extend()
    first_row, stretches = 0, []
    for place, (req, before) in enumerate(zip(batch.reqs, lengths_before, strict=True)):
        given = len(req.origin_input_ids)
        if extends:
            count, position = batch.extend_lens[place], batch.prefix_lens[place]
        else:
            count, position = result.speculative_num_draft_tokens, given + before - 1
        row, first_row = first_row, first_row + count
        custom = req.sampling_params.custom_params or {}
        if not custom.get("tlt_capture", True) or not is_sampled(request_id(req.rid), policy):
            continue
        response = req.output_ids_through_stop
        # The last token of a response has no successor, so that its state is of no use.
        states = min(position + count, given + len(response) - 1) - position
        if not extends and len(response) <= before:
            continue
        if states > 0:
            ids = _slice(req.origin_input_ids, response, position, position + states + 1)
            stretches.append(
                Rows(
                    request_id=request_id(req.rid),
                    prompt_tokens=given - prefix_of(req),
                    position=position,
                    first_row=row,
                    token_ids=ids,
                )
            )
    return stretches


def _slice(prompt: Sequence[int], response: Sequence[int], low: int, high: int) -> list[int]:
    split = len(prompt)
    head = list(prompt[low : min(high, split)]) if low < split else []
    return head + list(response[max(0, low - split) : max(0, high - split)])
