"""Converts verl's sampling parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tlt_common.client import SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.sampling import arguments_of

_LIMITS = ("max_tokens", "max_new_tokens")
_OTHERS = (*_LIMITS, "prompt_logprobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Length limits for responses that have no limit of their own."""

    prompt_length: int
    """verl's `rollout.prompt_length`."""
    response_length: int
    """verl's `rollout.response_length`."""
    context_length: int
    """Context length of the engines: prompt and response together."""

    def max_new_tokens(self, params: Mapping[str, Any], prompt_tokens: int) -> int:
        """
        Return how many tokens may be generated, as verl's own servers compute it: the requested number, otherwise the
        rest of the batch's width, but never more than the context holds.
        """
        given = next((params[name] for name in _LIMITS if params.get(name) is not None), None)
        width = min(self.response_length, self.prompt_length + self.response_length - prompt_tokens)
        return max(0, min(width if given is None else given, self.context_length - prompt_tokens))


def sampling_of(params: Mapping[str, Any], *, max_new_tokens: int, ignore_eos: bool = False) -> SamplingParams:
    """
    Convert verl's sampling parameters.

    Args:
        params: Sampling parameters of a call of verl's LLMServerClient.
        max_new_tokens: Limit of new tokens, above 0.
        ignore_eos: verl's `rollout.ignore_eos`.

    Raises:
        InvalidRequestError: A parameter is not supported or out of range; the message names it.
    """
    arguments = arguments_of({name: value for name, value in params.items() if name not in _OTHERS})
    return SamplingParams(**{"ignore_eos": ignore_eos} | arguments, max_new_tokens=max_new_tokens)


def prompt_logprobs_start(params: Mapping[str, Any]) -> int | None:
    """
    Return from where verl asks for log-probabilities of the prompt; None: it does not.

    Raises:
        InvalidRequestError: The most likely tokens are asked for, too.
    """
    wanted = params.get("prompt_logprobs")
    if wanted not in (None, 0):
        raise InvalidRequestError(
            f"prompt_logprobs is {wanted!r:.80}; accepted: 0, which returns those of the prompt's tokens",
            field="prompt_logprobs",
        )
    return None if wanted is None else 0


def prompt_fields(prompt: Sequence[int], logprobs: Sequence[float]) -> dict[str, Any]:
    """
    Return the fields of the prompt's log-probabilities that verl's own servers return.

    A row per token of the prompt: the next token and its log-probability, and zeros in the last row.
    """
    return {
        "prompt_ids": [*([token] for token in prompt[1:]), [0]],
        "prompt_logprobs": [*([logprob] for logprob in logprobs), [0.0]],
    }
