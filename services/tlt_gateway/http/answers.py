"""Parts that the answers of all protocols share: spans of weight versions, and the encoding of long answers."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import JsonValue

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, TokenChunk

LARGE = 8192
"""Tokens of an answer from which on a thread is worth its start."""


async def answered(make: Callable[[], Any], *, tokens: int = 0, chunks: Sequence[TokenChunk] = ()) -> JSONResponse:
    """
    Return an answer with this many tokens, or with these responses, as JSON. Large ones are built and encoded in a
    thread.
    """
    if tokens + sum(map(_size, chunks)) < LARGE:
        return JSONResponse(make())
    return await asyncio.to_thread(lambda: JSONResponse(make()))


def _size(chunk: TokenChunk) -> int:
    """Return the number of tokens that an answer lists details for."""
    routed, scored = chunk.routed_experts, chunk.prompt_logprobs
    return len(chunk.token_ids) + (routed.tokens if routed else 0) + (len(scored.logprobs) if scored else 0)


def spans(versions: Sequence[PolicyVersion]) -> list[JsonValue]:
    """Return the weight versions of tokens in SGLang's format: one span per version, with an exclusive `end`."""
    found: list[JsonValue] = []
    begin = 0
    for version, tokens in groupby(versions):
        end = begin + sum(1 for _ in tokens)
        found.append({"version": str(version), "start": begin, "end": end})
        begin = end
    return found


def meta_info(so_far: TokenChunk, prompt: Prompt, *, rid: str, limit: int | None, began_s: float) -> dict[str, Any]:
    """
    Return the `meta_info` of a response in SGLang's format, without log-probabilities.

    Args:
        so_far: All its tokens so far.
        prompt: Its prompt.
        rid: The caller's id of the request.
        limit: Maximum number of tokens.
        began_s: When the call began, on the monotonic clock.
    """
    count = len(so_far.token_ids)
    meta: dict[str, Any] = {
        "id": rid,
        "finish_reason": _finish_reason(so_far, limit=limit),
        "prompt_tokens": len(prompt.token_ids),
        "completion_tokens": count,
        "weight_version": str(so_far.policy_versions[-1] if count else 0),
        "weight_versions": spans(so_far.policy_versions),
    }
    if so_far.stats is not None:
        meta |= so_far.stats.meta_info() | {"completion_tokens": count}
        meta["e2e_latency"] = time.monotonic() - began_s
    return meta


def _finish_reason(so_far: TokenChunk, *, limit: int | None) -> dict[str, JsonValue] | None:
    match so_far.finish_reason:
        case FinishReason.STOP:
            last = so_far.token_ids[-1] if so_far.token_ids else None
            return {"type": "stop", "matched": so_far.matched_stop or last}
        case FinishReason.LENGTH:
            return {"type": "length", "length": limit or len(so_far.token_ids)}
        case FinishReason.ABORT:
            return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        case None:
            return None
