"""Converts requests to SGLang's parameters, and SGLang's outputs to token chunks."""

from array import array
from dataclasses import dataclass
from http import HTTPStatus
from math import inf, isfinite
from pathlib import Path
from typing import Any

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.errors import InvalidRequestError, OverloadedError, RequestFailedError, TltError
from tlt_worker.link.penalty import Penalty
from tlt_worker.link.stop_strings import StopStrings
from tlt_worker.model.routing import Routing


def sglang_params(prompt: Prompt, model: Path) -> dict[str, Any]:
    """Return SGLang's sampling parameters for a prompt to a model, including custom ones for our hooks."""
    sampling, blocked = prompt.sampling, blocker(prompt)
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "max_new_tokens": (sampling.max_new_tokens or 0) - len(prompt.prefix_token_ids),
        "stop_token_ids": list(sampling.stop_token_ids) or None,
        "ignore_eos": sampling.ignore_eos,
        "sampling_seed": sampling.seed,
        "custom_params": {
            "tlt_speculation_off": bool(blocked),
            "tlt_capture": prompt.capture,
            "tlt_prefix": len(prompt.prefix_token_ids),
            "tlt_logprobs": sampling.logprobs.value,
            # Not as SGLang's own parameters, which would activate its penalizers (see `penalties`).
            "tlt_penalty": Penalty.of(sampling).packed(),
            # SGLang has no tokenizer here, and would not find strings that the model cuts into tokens as it likes.
            "tlt_stop": StopStrings.packed(sampling, model),
        },
    }


def blocker(prompt: Prompt) -> str:
    """Return why a prompt is decoded without drafts, or an empty string if it may be drafted for."""
    if prompt.speculation == "off":
        return "the request disables speculation"
    return speculation_blocker(prompt.sampling) or ""


@dataclass(slots=True, kw_only=True)
class Response:
    """The state of one response while it is generated."""

    prompt: Prompt
    routing: Routing | None = None
    """Routing of the model, if the engine returns routed experts."""
    forced: bool = False
    """Whether tokens are simulated instead of the model's. A simulated token may have probability 0."""
    done_tokens: int = 0

    def chunk(self, output: dict[str, Any]) -> TokenChunk:
        """
        Return the new tokens of an output.

        Outputs may repeat: when SGLang aborts a queued request, it resends its last token.

        Raises:
            InvalidRequestError: SGLang refused the request.
            OverloadedError: SGLang is overloaded.
            RequestFailedError: SGLang failed on the request, has no memory for it, did not record its experts or the
                log-probabilities of its prompt, or returned one that is not finite.
        """
        meta = output["meta_info"]
        if (error := refusal(meta["finish_reason"])) is not None:
            raise error
        new = max(0, meta["completion_tokens"] - self.done_tokens)
        ids = tuple(output["output_ids"][len(output["output_ids"]) - new :])
        entries = meta.get("output_token_logprobs") or []
        logprobs = tuple(float(entry[0]) for entry in entries[len(entries) - new :])
        for place, logprob in enumerate(logprobs):
            if not (isfinite(logprob) or (self.forced and logprob == -inf)):
                raise _not_finite(f"token {self.done_tokens + place} of the response", logprob, meta)
        scored = self._prompt_logprobs(meta) if new and not self.done_tokens else None
        self.done_tokens += new
        reason = _finish_reason(meta["finish_reason"])
        return TokenChunk(
            request_id=RequestId(self.prompt.request_id),
            token_ids=ids,
            logprobs=logprobs,
            policy_versions=_versions(meta, self.done_tokens - new, new),
            finish_reason=reason,
            stats=None if reason is None else self._stats(meta),
            matched_stop=self._matched_stop(meta["finish_reason"]),
            routed_experts=self._routed(meta) if reason in {FinishReason.STOP, FinishReason.LENGTH} else None,
            prompt_logprobs=scored,
        )

    def _prompt_logprobs(self, meta: dict[str, Any]) -> PromptLogprobs | None:
        if (start := self.prompt.prompt_logprobs_start) is None:
            return None
        first, length = max(1, start), len(self.prompt.token_ids)
        # SGLang's entry before `first` has no value. A prefix is part of SGLang's prompt.
        logprobs = array("f", (entry[0] for entry in meta["input_token_logprobs"][1 : 1 + length - first]))
        if len(logprobs) != length - first:
            raise RequestFailedError(
                f"the engine returned {len(logprobs)} of {length - first} prompt log-probabilities"
            )
        for place, logprob in enumerate(logprobs):
            if not isfinite(logprob):
                raise _not_finite(f"token {first + place} of the prompt", logprob, meta)
        return PromptLogprobs(first=first, logprobs=logprobs)

    def _routed(self, meta: dict[str, Any]) -> RoutedExperts | None:
        first = self.prompt.routed_experts_start
        if first is None or self.routing is None:
            return None
        length = len(self.prompt.token_ids) + len(self.prompt.prefix_token_ids) + self.done_tokens
        return self.routing.packed(meta.get("routed_experts"), first=first, tokens=max(0, length - 1 - first))

    def _matched_stop(self, reason: dict[str, Any] | None) -> str:
        matched = (reason or {}).get("matched")
        return str(matched) if matched in self.prompt.sampling.stop else ""

    def _stats(self, meta: dict[str, Any]) -> ResponseStats:
        # The first token comes from prefill, which SGLang does not count as a round.
        verified = int(meta.get("spec_verify_ct", max(0, self.done_tokens - 1)))
        rounds = verified + (1 if self.done_tokens else 0)
        return ResponseStats(
            prompt_tokens=len(self.prompt.token_ids),
            completion_tokens=self.done_tokens,
            rounds=rounds,
            accepted_draft_tokens=accepted_drafts(meta),
            proposed_draft_tokens=proposed_drafts(meta),
            speculation_blocker=blocker(self.prompt),
            cached_tokens=int(meta.get("cached_tokens", 0)),
        )


def _not_finite(token: str, logprob: float, meta: dict[str, Any]) -> RequestFailedError:
    return RequestFailedError(
        f"the log-probability of {token} is {logprob}: the model's outputs are not finite under policy version "
        f"{meta.get('weight_version')}. Check the weights, and the range of engine.dtype"
    )


def accepted_drafts(meta: dict[str, Any]) -> int:
    """Return the number of accepted draft tokens, from SGLang's current field or the previous one."""
    return int(meta.get("spec_num_correct_drafts", meta.get("spec_accept_token_num", 0)))


def proposed_drafts(meta: dict[str, Any]) -> int:
    """
    Return the number of draft tokens verified for a request.

    SGLang's own figure multiplies rounds by the widest arm. The plug-in counts draft tokens per round, in the field
    that SGLang sends as the sum of verification caps and reports as their mean per round.
    """
    return round(float(meta.get("spec_cap_length", 0.0)) * int(meta.get("spec_verify_ct", 0)))


def _versions(meta: dict[str, Any], start: int, count: int) -> tuple[PolicyVersion, ...]:
    """Return the weight version of each new token. Only the last output has exact spans; others have one version."""
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


def refusal(reason: dict[str, Any] | None) -> TltError | None:
    """Return the error in a finish reason. SGLang reports errors as aborts with a status; clients' aborts have none."""
    if reason is None or reason["type"] != "abort" or reason.get("status_code") is None:
        return None
    status, message = int(reason["status_code"]), str(reason.get("message") or "no reason given")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return OverloadedError(f"the engine refused the request: {message}")
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return InvalidRequestError(f"the engine refused the request: {message}")
    return RequestFailedError(f"the engine failed on the request: {message}")


def _finish_reason(reason: dict[str, Any] | None) -> FinishReason | None:
    return None if reason is None else FinishReason(reason["type"])


def speculation_blocker(params: SamplingParams) -> str | None:
    """
    Return why a request must run without drafts, or None if drafts preserve its distribution.

    Verification covers several positions at once, while penalties and a minimum length change the distribution from one
    token to the next: penalties are constant within a round and therefore exact only with one token per round
    (`penalties`).
    """
    if params.frequency_penalty != 0.0:
        return "frequency_penalty changes with every token"
    if params.presence_penalty != 0.0:
        return "presence_penalty changes with every new token"
    if params.repetition_penalty != 1.0:
        return "repetition_penalty changes with every new token"
    if params.min_new_tokens > 0:
        return "min_new_tokens masks end tokens by position"
    return None
