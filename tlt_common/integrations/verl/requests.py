"""verl's sampling parameters as ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.client import SamplingParams
from tlt_common.errors import InvalidRequestError

_SAME = frozenset({
    "temperature", "top_p", "min_p", "ignore_eos", "seed",
    "frequency_penalty", "presence_penalty", "repetition_penalty",
})  # fmt: skip
_LIMITS = ("max_tokens", "max_new_tokens")
_TRANSLATED = frozenset({"top_k", "stop_token_ids", "logprobs", *_LIMITS})
_NONE: Mapping[str, tuple[Any, ...]] = {
    "n": (1, None), "stop": (None, "", [], ()), "bad_words": (None, []), "logit_bias": (None, {}),
    "structured_outputs": (None,), "prompt_logprobs": (None,), "min_tokens": (0, None),
}  # fmt: skip
"""Parameters that have no effect here, with the values that ask for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """What limits the length of a response that has no limit of its own."""

    prompt_length: int
    """verl's `rollout.prompt_length`."""
    response_length: int
    """verl's `rollout.response_length`."""
    context_length: int
    """What the engines hold, prompt and response together."""

    def room(self, params: Mapping[str, Any], prompt_tokens: int) -> int:
        """
        Return how many tokens may be generated, as verl's own servers reckon: what was asked for, else what the batch's
        width leaves; never more than the context holds.
        """
        given = next((params[name] for name in _LIMITS if params.get(name) is not None), None)
        width = min(self.response_length, self.prompt_length + self.response_length - prompt_tokens)
        return max(0, min(width if given is None else given, self.context_length - prompt_tokens))


def sampling_of(params: Mapping[str, Any], *, room: int, ignore_eos: bool = False) -> SamplingParams:
    """
    Return verl's sampling parameters as ours.

    Args:
        params: Sampling parameters of a call of verl's LLMServerClient.
        room: Limit of new tokens, above 0.
        ignore_eos: verl's `rollout.ignore_eos`.

    Raises:
        InvalidRequestError: One is not supported or out of range; the message names it.
    """
    for name, value in params.items():
        if name in _NONE and value not in _NONE[name]:
            raise InvalidRequestError(f"{name} is {value!r:.80}; accepted: {_NONE[name][0]!r}", field=name)
        if name not in _NONE and name not in _SAME | _TRANSLATED:
            accepted = ", ".join(sorted(_SAME | _TRANSLATED))
            raise InvalidRequestError(f"{name} is not a sampling parameter here; accepted: {accepted}", field=name)
    if (logprobs := params.get("logprobs")) not in (None, False, True):
        raise InvalidRequestError(
            f"logprobs is {logprobs!r:.80}; accepted: true or false, of the sampled tokens", field="logprobs"
        )
    same = {name: params[name] for name in _SAME if params.get(name) is not None}
    return SamplingParams(
        **{"ignore_eos": ignore_eos} | same,
        max_new_tokens=room,
        top_k=max(0, params.get("top_k") or 0),  # -1 keeps all candidates, as 0 does here
        stop_token_ids=tuple(params.get("stop_token_ids") or ()),
    )
