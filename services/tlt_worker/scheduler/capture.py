"""
Captures hidden states: rows of a processed round become frames, encoded here and decoded by the trainer only.

State t of a request is the drafter's training input at position t, computed by the target from tokens up to t: with
EAGLE the last hidden state, with EAGLE-3 the concatenated states of the layers it reads, followed by the last one. Rows
are taken after SGLang has processed a round's result, so that the tokens are those of the final response. Requests are
selected before anything is copied.

Shapes: R rows of a round, H elements of a state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tlt_common import codec
from tlt_common.domain.hidden import SCALE_BYTES, SCALED, CapturePolicy, EncodedFrame, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_worker.scheduler.captured_rows import CapturedRows

DTYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.uint8: SCALED}
"""Type of a frame by that of the rows; `scaled_rows` returns bytes."""

MAX_OPEN_FRAMES = 4096
"""Requests with a partially filled frame. Aborted requests never finish here; above this the oldest is dropped."""


@dataclass(slots=True, kw_only=True)
class _OpenFrame:
    """The partially filled frame of a request; empty right after a frame was sent."""

    prompt_tokens: int
    prompt_hash: int
    policy_version: PolicyVersion
    dtype: str
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
    layers: tuple[int, ...] = ()
    """Layers whose states precede the last hidden state."""
    _open: dict[str, _OpenFrame] = field(default_factory=dict)
    _state_size: int = 0

    def add(self, states_CH: Tensor, stretches: Sequence[CapturedRows], version: PolicyVersion) -> None:
        """
        Add the states of `stretches`, rows of `states_CH` in the host's memory, computed under `version`.

        Rows of bytes were made by `scaled_rows`.
        """
        missing = [fresh for rows in stretches if (fresh := self._fresh(rows)) is not None]
        if not missing:
            return
        index = [row for rows in missing for row in range(rows.first_row, rows.first_row + rows.count)]
        states_RH = states_CH[torch.tensor(index)]
        raw = memoryview(states_RH.view(torch.uint8).numpy().data).cast("B")
        dtype = DTYPES[states_RH.dtype]
        self._state_size = states_RH.shape[1] - (SCALE_BYTES if dtype == SCALED else 0)
        row_bytes = states_RH.shape[1] * states_RH.element_size()
        done = 0
        for rows in missing:
            size = rows.count * row_bytes
            self._append(rows, raw[done : done + size], version, dtype, row_bytes)
            done += size

    def finish(self, request_id: RequestId, response_tokens: int) -> None:
        """Send the remaining states of a finished request."""
        frame = self._open.pop(request_id, None)
        if frame is not None and frame.states:
            self._send(request_id, frame, response_tokens=response_tokens, finished=True)

    def _fresh(self, rows: CapturedRows) -> CapturedRows | None:
        """Drop states that were added before: a request whose cache was evicted computes its tokens again."""
        frame = self._open.get(rows.request_id)
        skip = max(0, frame.end - rows.position) if frame is not None else 0
        if skip >= rows.count:
            return None
        return CapturedRows(
            request_id=rows.request_id,
            prompt=rows.prompt,
            prompt_tokens=rows.prompt_tokens,
            position=rows.position + skip,
            first_row=rows.first_row + skip,
            token_ids=rows.token_ids[skip:],
        )

    def _append(self, rows: CapturedRows, raw: memoryview, version: PolicyVersion, dtype: str, row_bytes: int) -> None:
        frame = self._open.get(rows.request_id)
        # The type changes with the capture policy.
        if frame is None or (frame.end, frame.policy_version, frame.dtype) != (rows.position, version, dtype):
            if frame is not None and frame.states:
                self._send(rows.request_id, frame, response_tokens=frame.end - frame.prompt_tokens, finished=False)
            frame = self._begin(rows, version, dtype)
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

    def _begin(self, rows: CapturedRows, version: PolicyVersion, dtype: str) -> _OpenFrame:
        frame = _OpenFrame(
            prompt_tokens=rows.prompt_tokens,
            prompt_hash=prompt_hash(rows.prompt[: rows.prompt_tokens]),
            policy_version=version,
            dtype=dtype,
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
            dtype=frame.dtype,
            prompt_tokens=frame.prompt_tokens,
            response_tokens=max(0, response_tokens),
            finished=finished,
            layers=self.layers,
        )
        self.send(codec.encode(header, frame.token_ids, frame.states))
