"""The chunk with the last token of a scripted response."""

from array import array
from collections.abc import Callable, Sequence

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.text.detokenizer import Detokenizer, Vocabulary
from tlt_worker.scheduler.stopping import StopSearch


def scripted_chunk(
    prompt: Prompt,
    tokens: Sequence[int],
    length: int,
    version: PolicyVersion,
    worker: WorkerId,
    cached: int,
    decode: Callable[[list[int]], str] | None,
    *,
    routes: bool = False,
) -> TokenChunk:
    """Return the last of at most `length` response tokens, given all tokens with the prompt's. It takes one round."""
    sampling, token, count = prompt.sampling, tokens[-1], len(tokens) - len(prompt.token_ids)
    matched = _matched(prompt, tokens, decode) if sampling.stop and decode else ""
    stopped = matched or (token in sampling.stop_token_ids and count > sampling.min_new_tokens)
    finish = FinishReason.STOP if stopped else FinishReason.LENGTH if count == length else None
    produced = count - len(prompt.prefix_token_ids)
    stats = ResponseStats(
        prompt_tokens=len(prompt.token_ids),
        completion_tokens=produced,
        rounds=produced,
        accepted_draft_tokens=0,
        worker_id=worker,
        cached_tokens=cached,
    )
    return TokenChunk(
        request_id=prompt.request_id,
        token_ids=(token,),
        logprobs=(-token / 128,),
        policy_versions=(version,),
        finish_reason=finish,
        stats=stats if finish else None,
        matched_stop=matched,
        routed_experts=_routed(prompt, tokens) if finish and routes else None,
        prompt_logprobs=scripted_logprobs(prompt) if produced == 1 else None,
    )


def scripted_logprobs(prompt: Prompt) -> PromptLogprobs | None:
    """Return what fake engines answer of a prompt's log-probabilities: of a token, minus its number in 128ths."""
    if (start := prompt.prompt_logprobs_start) is None:
        return None
    first = max(1, start)
    return PromptLogprobs(first=first, logprobs=array("f", (-token / 128 for token in prompt.token_ids[first:])))


def _routed(prompt: Prompt, tokens: Sequence[int]) -> RoutedExperts | None:
    """Route a token to its number and the next one, in two layers of a hundred experts."""
    first = prompt.routed_experts_start
    if first is None:
        return None
    rows = (bytes((token % 100, (token + 1) % 100)) * 2 for token in tokens[first:-1])
    return RoutedExperts(first=first, layers=2, top_k=2, dtype="U8", data=b"".join(rows))


def _matched(prompt: Prompt, tokens: Sequence[int], decode: Callable[[list[int]], str]) -> str:
    search = StopSearch(
        Detokenizer(Vocabulary(decode)), prompt.sampling.stop, min_tokens=prompt.sampling.min_new_tokens
    )
    *_, last = map(search.add, tokens[len(prompt.token_ids) :])
    return last or ""
