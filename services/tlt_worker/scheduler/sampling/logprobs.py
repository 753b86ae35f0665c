"""
Logprob kinds that SGLang does not report: raw ones, and those of the filtered distribution.

SGLang has one kind per process; here every request selects its own, with and without drafts, including the first token.

Shapes: B requests, D longest accepted path, L rows of another kind, V vocabulary.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.prompt import LogprobKind
from tlt_worker.scheduler.sampling.cuts import cuts_of
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sent import sent_once

requested_kinds: ContextVar[tuple[LogprobKind, ...]] = ContextVar("tlt_logprobs", default=())
"""Logprob kind of each request of the batch; empty if all requests use SGLang's."""


def kinds_of(reqs: Sequence[Any]) -> tuple[LogprobKind, ...]:
    """Return `requested_kinds` of a batch of SGLang's requests."""
    kinds = tuple(LogprobKind((req.sampling_params.custom_params or {}).get("tlt_logprobs", "policy")) for req in reqs)
    return kinds if any(kind is not LogprobKind.POLICY for kind in kinds) else ()


def logprobs_of(logits_LV: Tensor, tokens_L: Tensor, kinds: Sequence[LogprobKind], info: Any, rows_L: Tensor) -> Tensor:
    """
    Return the logprobs [L] of tokens, each of its kind.

    `rows_L` maps each row to its request in the batch; `info` holds the batch's sampling settings.
    """
    is_raw_L = sent_once(tuple(kind is LogprobKind.RAW for kind in kinds), logits_LV.device, torch.bool)
    raw_LV = torch.log_softmax(logits_LV, -1)
    probs_LV = torch.softmax(logits_LV / info.temperatures[rows_L], -1)
    cuts = cuts_of(info)
    filtered_LV = (probs_LV if cuts is None else truncate(probs_LV, cuts.of(rows_L))).log()
    logprobs_LV = torch.where(is_raw_L.unsqueeze(1), raw_LV, filtered_LV)
    return logprobs_LV.gather(1, tokens_L.to(torch.int64).view(-1, 1)).view(-1)


def verify_logprobs(
    original: Callable[..., None], batch: Any, logits_output: Any, predict: Tensor, *, accept_index: Tensor, **kw: Any
) -> None:
    """Wrap `compute_spec_logprobs`: recompute the logprobs [B, D] of requests with another kind."""
    original(batch, logits_output, predict, accept_index=accept_index, **kw)
    kinds = requested_kinds.get()
    others = [place for place, kind in enumerate(kinds) if kind is not LogprobKind.POLICY]
    if not others:
        return
    depth, places = accept_index.shape[1], sent_once(tuple(others), predict.device, torch.int64)
    nodes_L = accept_index[places].reshape(-1).to(torch.int64)
    each = [kinds[place] for place in others for _ in range(depth)]
    rows_L = places.repeat_interleave(depth)
    found_L = logprobs_of(logits_output.next_token_logits[nodes_L], predict[nodes_L], each, batch.sampling_info, rows_L)
    logits_output.next_token_logprobs[places] = found_L.view(-1, depth).to(logits_output.next_token_logprobs.dtype)


def plain_logprobs(
    original: Callable[..., Tensor], self: Any, logits_output: Any, sampling_info: Any, *args: Any, **kw: Any
) -> Tensor:
    """Wrap `Sampler.forward`, which draws first tokens and those of rounds without drafts; see `verify_logprobs`."""
    kinds = requested_kinds.get()
    others = [place for place, kind in enumerate(kinds) if kind is not LogprobKind.POLICY]
    if not others:
        return original(self, logits_output, sampling_info, *args, **kw)
    rows_L = sent_once(tuple(others), logits_output.next_token_logits.device, torch.int64)
    logits_LV = logits_output.next_token_logits[rows_L]  # a copy: SGLang turns the logits into probabilities in place
    tokens_B = original(self, logits_output, sampling_info, *args, **kw)
    if logits_output.next_token_logprobs is not None:
        each = [kinds[place] for place in others]
        logits_output.next_token_logprobs[rows_L] = logprobs_of(
            logits_LV, tokens_B[rows_L], each, sampling_info, rows_L
        )
    return tokens_B


def drop_skipped_prompts(batch: Any, result: Any) -> None:
    """
    Remove the log-probabilities of prompts whose requests SGLang skips when it processes a round.

    Written against SGLang 0.5.23: `BatchResultProcessor.process_batch_result_prefill`.

    With overlapped scheduling (GPU), a request may be retracted between the launch of its prefill and its processing,
    if the next round finds no room for it. SGLang then skips the request, but not its values, and the requests after it
    in the batch would get those. Call it before SGLang processes the result.
    """
    output, starts = result.logits_output, result.extend_logprob_start_len_per_req
    if not starts or output is None or output.input_token_logprobs is None or not batch.forward_mode.is_extend():
        return
    counts = [length - start for length, start in zip(result.extend_input_len_per_req, starts, strict=True)]
    skipped = [req.is_retracted or (req.finished() and req.inflight_middle_chunks <= 0) for req in batch.reqs]
    if not any(count for count, is_skipped in zip(counts, skipped, strict=True) if is_skipped):
        return
    if result.copy_done is not None:
        result.copy_done.synchronize()
    output.finalize_input_logprobs()
    parts = output.input_token_logprobs.split(counts)
    kept = [part for part, is_skipped in zip(parts, skipped, strict=True) if not is_skipped]
    output.input_token_logprobs = torch.cat(kept) if kept else output.input_token_logprobs[:0]
