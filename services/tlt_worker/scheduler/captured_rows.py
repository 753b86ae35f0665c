"""
Selects the rows of a round's hidden states to capture, and maps them to requests and positions.

Rows are selected when a round is launched and copied right after it; their tokens are known when it is processed.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import RequestId
from tlt_worker.link.request_id import request_id
from tlt_worker.scheduler.sampling.penalties import prefix_of

PROMPT_SHARE = 0.5
"""Share of a response's first frame that its prompt may fill. A drafter attends within a frame, so the first tokens
need some of what precedes them. Frames of prompt tokens alone would be refused by the trainer."""


def is_sampled(request_id: str, policy: CapturePolicy) -> bool:
    """Whether a request is captured. The answer is the same on every engine while the policy is unchanged."""
    return policy.enabled and zlib.crc32(request_id.encode()) < policy.sample_ratio * 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The rows of one request in a launched round."""

    place: int
    """Index of the request in the batch."""
    row: int
    """First row of the request."""
    count: int
    position: int | None
    """Position of the first state. None stands for the request's last token when the round is processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRows:
    """Consecutive captured states of one request."""

    request_id: RequestId
    prompt: Sequence[int]
    """The input tokens. The first `prompt_tokens` are the prompt; a response to continue follows."""
    prompt_tokens: int
    position: int
    """Position of the first state."""
    first_row: int
    """Copied row of the first state."""
    token_ids: Sequence[int]
    """Ids at position .. position + n for n states."""

    @property
    def count(self) -> int:
        """Number of states, n."""
        return len(self.token_ids) - 1


def prompt_rows(batch: Any, policy: CapturePolicy) -> list[Chosen]:
    """
    Return the rows to copy of an SGLang batch that ran prefill, as `policy` requires.

    Only a prompt's last states are captured, which share a frame with the response. The others are not used for
    training.
    """
    found, row = [], 0
    for place, (req, count) in enumerate(zip(batch.reqs, batch.extend_lens or (), strict=True)):
        if _is_captured(req, policy):
            start, end = batch.prefix_lens[place], batch.prefix_lens[place] + count
            response_at = len(req.origin_input_ids) - prefix_of(req)
            first = max(start, response_at - int(policy.frame_tokens * PROMPT_SHARE))
            if first < end:
                found.append(Chosen(place=place, row=row + first - start, count=end - first, position=first))
        row += count
    return found


def decoded_rows(reqs: Sequence[Any], nodes: int, depth: int, policy: CapturePolicy) -> list[Chosen]:
    """
    Return the rows to copy of a round that decoded.

    Args:
        reqs: SGLang's requests, each with `nodes` rows.
        nodes: Rows per request.
        depth: Maximum number of accepted rows, which come first.
        policy: The capture policy.
    """
    return [
        Chosen(place=place, row=place * nodes, count=depth, position=None)
        for place, req in enumerate(reqs)
        if _is_captured(req, policy)
    ]


def stretches_of(reqs: Sequence[Any], rows: Sequence[Chosen], lengths_before: Sequence[int]) -> list[CapturedRows]:
    """
    Return the copied rows of a processed round that belong to a response or its prompt.

    `reqs` are SGLang's, and `lengths_before` are the response lengths before the round was processed: the tokens added
    since are the round's, without those accepted after an end token.
    """
    first_row, stretches = 0, []
    for one in rows:
        req, before = reqs[one.place], lengths_before[one.place]
        row, first_row = first_row, first_row + one.count
        response, prompt_tokens = req.output_ids_through_stop, len(req.origin_input_ids)
        if one.position is None and len(response) <= before:
            continue
        position = prompt_tokens + before - 1 if one.position is None else one.position
        # The last token of a response has no successor, so its state is useless for training.
        states = min(position + one.count, prompt_tokens + len(response) - 1) - position
        if states <= 0:
            continue
        stretches.append(
            CapturedRows(
                request_id=request_id(req.rid),
                prompt=req.origin_input_ids,
                prompt_tokens=prompt_tokens - prefix_of(req),
                position=position,
                first_row=row,
                token_ids=_slice(req.origin_input_ids, response, position, position + states + 1),
            )
        )
    return stretches


def _is_captured(req: Any, policy: CapturePolicy) -> bool:
    custom = req.sampling_params.custom_params or {}
    return bool(custom.get("tlt_capture", True)) and is_sampled(request_id(req.rid), policy)


def _slice(prompt: Sequence[int], response: Sequence[int], low: int, high: int) -> list[int]:
    split = len(prompt)
    head = list(prompt[low : min(high, split)]) if low < split else []
    return head + list(response[max(0, low - split) : max(0, high - split)])
