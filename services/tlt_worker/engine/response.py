"""From SGLang's streamed outputs to token chunks."""

from dataclasses import dataclass
from typing import Any

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.rollout import FinishReason, Prompt, ResponseStats, TokenChunk
from tlt_worker.engine.blocker import speculation_blocker


def sglang_params(prompt: Prompt) -> dict[str, Any]:
    """Return SGLang's sampling parameters for a prompt, with what our hooks must know of it."""
    sampling, blocked = prompt.sampling, blocker(prompt)
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "max_new_tokens": sampling.max_new_tokens,
        "stop_token_ids": list(sampling.stop_token_ids) or None,
        "ignore_eos": sampling.ignore_eos,
        "sampling_seed": sampling.seed,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "min_new_tokens": sampling.min_new_tokens,
        "custom_params": {"tlt_speculation_off": bool(blocked), "tlt_capture": prompt.capture},
    }


def blocker(prompt: Prompt) -> str:
    """Why a prompt is answered without drafts; empty if it need not be."""
    if prompt.speculation == "off":
        return "the request asked for no speculation"
    return speculation_blocker(prompt.sampling) or ""


@dataclass(slots=True, kw_only=True)
class Response:
    """One response in the making."""

    prompt: Prompt
    done_tokens: int = 0

    def chunk(self, output: dict[str, Any]) -> TokenChunk:
        """
        Turn one output into the chunk of what is new in it.

        Outputs may repeat: when SGLang aborts a request that waits, it sends its last token again.
        """
        meta = output["meta_info"]
        new = max(0, meta["completion_tokens"] - self.done_tokens)
        ids = tuple(output["output_ids"][len(output["output_ids"]) - new :])
        entries = meta.get("output_token_logprobs") or []
        logprobs = tuple(float(entry[0]) for entry in entries[len(entries) - new :])
        self.done_tokens += new
        reason = _finish_reason(meta["finish_reason"])
        return TokenChunk(
            request_id=RequestId(self.prompt.request_id),
            token_ids=ids,
            logprobs=logprobs,
            policy_versions=_versions(meta, self.done_tokens - new, new),
            finish_reason=reason,
            stats=None if reason is None else self._stats(meta),
        )

    def _stats(self, meta: dict[str, Any]) -> ResponseStats:
        # The first token comes from prefill, which SGLang does not count as a round.
        rounds = int(meta.get("spec_verify_ct", 0)) + (1 if self.done_tokens else 0)
        return ResponseStats(
            prompt_tokens=len(self.prompt.token_ids),
            completion_tokens=self.done_tokens,
            rounds=rounds,
            accepted_draft_tokens=int(meta.get("spec_num_correct_drafts", max(0, self.done_tokens - rounds))),
            speculation_blocker=blocker(self.prompt),
        )


def _versions(meta: dict[str, Any], start: int, count: int) -> tuple[PolicyVersion, ...]:
    """Weight version of each new token: exact spans come with the last output, before that all are of one version."""
    spans = meta.get("weight_versions")
    if not spans:
        return (PolicyVersion(int(meta["weight_version"])),) * count
    return tuple(
        next(
            (PolicyVersion(int(span["version"])) for span in spans if span["start"] <= place < span["end"]),
            PolicyVersion(int(spans[-1]["version"])),
        )
        for place in range(start, start + count)
    )


def _finish_reason(reason: dict[str, Any] | None) -> FinishReason | None:
    return None if reason is None else FinishReason(reason["type"])
