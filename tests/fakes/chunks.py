"""Parts of responses."""

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import FinishReason, TokenChunk


def chunk(*tokens: int, finish: FinishReason | None = None, matched: str = "") -> TokenChunk:
    """Return a part of the response to `r`, of version 0."""
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=tokens,
        logprobs=(-0.5,) * len(tokens),
        policy_versions=(PolicyVersion(0),) * len(tokens),
        finish_reason=finish,
        matched_stop=matched,
    )
