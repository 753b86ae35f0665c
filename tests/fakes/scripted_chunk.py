"""The chunk with the next token of a scripted response."""

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.rollout import FinishReason, Prompt, ResponseStats, TokenChunk


def scripted_chunk(
    prompt: Prompt, token: int, count: int, length: int, version: PolicyVersion, worker: WorkerId, cached: int
) -> TokenChunk:
    """Return the `count`-th of at most `length` tokens, those of a prefix included. It takes one round."""
    sampling, produced = prompt.sampling, count - len(prompt.prefix_token_ids)
    stopped = token in sampling.stop_token_ids and count > sampling.min_new_tokens
    finish = FinishReason.STOP if stopped else FinishReason.LENGTH if count == length else None
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
    )
