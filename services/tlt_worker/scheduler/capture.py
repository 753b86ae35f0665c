"""
Hidden-state capture: rows of a processed round become frames, encoded here and decoded by the trainer only.

State t of a request is what the drafter reads from the target at position t, computed from tokens up to t: with EAGLE
the last hidden state, with EAGLE-3 those of a low, a middle and a high layer, concatenated. Rows are taken after SGLang
has processed a round's result, so that the tokens are those of the final response. Whether a request is captured is
decided before anything is copied.

Shapes: R rows of a round, H elements of a state.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common import codec
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_worker.link.request_id import request_id
from tlt_worker.scheduler.sampling.penalties import prefix_of

DTYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}

MAX_OPEN_FRAMES = 4096
"""Requests with a partially filled frame. Aborted requests never finish here; above this the oldest is dropped."""


def is_sampled(request_id: str, policy: CapturePolicy) -> bool:
    """Whether a request is captured: the same result in every engine, for as long as the policy is unchanged."""
    return policy.enabled and zlib.crc32(request_id.encode()) < policy.sample_ratio * 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Consecutive states of one request."""

    request_id: RequestId
    prompt: Sequence[int]
    """The input, of which the first `prompt_tokens` are the prompt: a continued response follows it."""
    prompt_tokens: int
    position: int
    """Position of the first state."""
    first_row: int
    """Row of the first state in the round's tensor."""
    token_ids: Sequence[int]
    """Ids at position .. position + n for n states."""

    @property
    def count(self) -> int:
        """Number of states, n."""
        return len(self.token_ids) - 1


@dataclass(slots=True, kw_only=True)
class _OpenFrame:
    """The partially filled frame of a request; empty right after a frame was sent."""

    prompt_tokens: int
    prompt_hash: int
    policy_version: PolicyVersion
    start: int
    token_ids: list[int]
    states: list[bytes] = field(default_factory=list)

    @property
    def token_count(self) -> int:
        """Number of states so far."""
        return len(self.token_ids) - 1

    @property
    def end(self) -> int:
        """Position after the last state."""
        return self.start + self.token_count


@dataclass(slots=True, kw_only=True)
class HiddenStateCapture:
    """Collects states per request and sends them in encoded frames."""

    send: Callable[[EncodedFrame], object]
    policy: CapturePolicy = field(default_factory=lambda: CapturePolicy(enabled=False))
    _open: dict[str, _OpenFrame] = field(default_factory=dict)
    _dtype: str = "BF16"
    _state_size: int = 0

    def add(self, hidden_RH: Tensor, stretches: Sequence[Rows], version: PolicyVersion) -> None:
        """Add the states of `stretches`, rows of `hidden_RH`, computed under `version`."""
        missing = [fresh for rows in stretches if (fresh := self._fresh(rows)) is not None]
        if not missing:
            return
        index = [row for rows in missing for row in range(rows.first_row, rows.first_row + rows.count)]
        states_RH = hidden_RH[torch.tensor(index, device=hidden_RH.device)].cpu().contiguous()
        raw = memoryview(states_RH.view(torch.uint8).numpy().data).cast("B")
        self._state_size, self._dtype = states_RH.shape[1], DTYPES[states_RH.dtype]
        row_bytes = self._state_size * states_RH.element_size()
        done = 0
        for rows in missing:
            size = rows.count * row_bytes
            self._append(rows, raw[done : done + size], version, row_bytes)
            done += size

    def finish(self, request_id: RequestId, response_tokens: int) -> None:
        """Send the remaining states of a finished request."""
        frame = self._open.pop(request_id, None)
        if frame is not None and frame.states:
            self._send(request_id, frame, response_tokens=response_tokens, finished=True)

    def _fresh(self, rows: Rows) -> Rows | None:
        """Drop states that were added before: a request whose cache was evicted computes its tokens again."""
        frame = self._open.get(rows.request_id)
        skip = max(0, frame.end - rows.position) if frame is not None else 0
        if skip >= rows.count:
            return None
        return Rows(
            request_id=rows.request_id,
            prompt=rows.prompt,
            prompt_tokens=rows.prompt_tokens,
            position=rows.position + skip,
            first_row=rows.first_row + skip,
            token_ids=rows.token_ids[skip:],
        )

    def _append(self, rows: Rows, raw: memoryview, version: PolicyVersion, row_bytes: int) -> None:
        frame = self._open.get(rows.request_id)
        if frame is None or frame.end != rows.position or frame.policy_version != version:
            if frame is not None and frame.states:
                self._send(rows.request_id, frame, response_tokens=frame.end - frame.prompt_tokens, finished=False)
            frame = self._begin(rows, version)
        done = 0
        while done < rows.count:
            count = min(rows.count - done, self.policy.frame_tokens - frame.token_count)
            # Copied: a view would keep the states of the whole round in memory until the frame is full.
            frame.states.append(bytes(raw[done * row_bytes : (done + count) * row_bytes]))
            frame.token_ids.extend(rows.token_ids[done + 1 : done + count + 1])
            done += count
            if frame.token_count >= self.policy.frame_tokens:
                self._send(rows.request_id, frame, response_tokens=frame.end + 1 - frame.prompt_tokens, finished=False)
                frame.start, frame.token_ids, frame.states = frame.end, frame.token_ids[-1:], []

    def _begin(self, rows: Rows, version: PolicyVersion) -> _OpenFrame:
        frame = _OpenFrame(
            prompt_tokens=rows.prompt_tokens,
            prompt_hash=prompt_hash(rows.prompt[: rows.prompt_tokens]),
            policy_version=version,
            start=rows.position,
            token_ids=[rows.token_ids[0]],
        )
        if len(self._open) >= MAX_OPEN_FRAMES:
            self._open.pop(next(iter(self._open)))
        self._open[rows.request_id] = frame
        return frame

    def _send(self, request_id: str, frame: _OpenFrame, *, response_tokens: int, finished: bool) -> None:
        header = FrameHeader(
            request_id=RequestId(request_id),
            policy_version=frame.policy_version,
            prompt_hash=frame.prompt_hash,
            start=frame.start,
            token_count=frame.token_count,
            hidden_size=self._state_size,
            dtype=self._dtype,
            prompt_tokens=frame.prompt_tokens,
            response_tokens=max(0, response_tokens),
            finished=finished,
        )
        self.send(codec.encode(header, frame.token_ids, frame.states))


def stretches_of(batch: Any, result: Any, lengths_before: Sequence[int], policy: CapturePolicy) -> list[Rows]:
    """
    Return each captured request's rows in a processed round. `batch` and `result` are SGLang's.

    `lengths_before` are the response lengths before the result was processed: the tokens added since are those of the
    round, without what was accepted after an end token.
    """
    extends = batch.forward_mode.is_extend()
    first_row, stretches = 0, []
    for place, (req, before) in enumerate(zip(batch.reqs, lengths_before, strict=True)):
        prompt_tokens = len(req.origin_input_ids)
        if extends:
            count, position = batch.extend_lens[place], batch.prefix_lens[place]
        else:
            count, position = result.speculative_num_draft_tokens, prompt_tokens + before - 1
        row, first_row = first_row, first_row + count
        custom = req.sampling_params.custom_params or {}
        if not custom.get("tlt_capture", True) or not is_sampled(request_id(req.rid), policy):
            continue
        response = req.output_ids_through_stop
        # The last token of a response has no successor, so its state is useless for training.
        states = min(position + count, prompt_tokens + len(response) - 1) - position
        if not extends and len(response) <= before:
            continue
        if states > 0:
            ids = _slice(req.origin_input_ids, response, position, position + states + 1)
            stretches.append(
                Rows(
                    request_id=request_id(req.rid),
                    prompt=req.origin_input_ids,
                    prompt_tokens=prompt_tokens - prefix_of(req),
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
