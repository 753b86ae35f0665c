"""Bodies of OpenAI's /v1/completions, as extended by vLLM, and of vLLM's /inference/v1/generate."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.body import Body, strings_of
from tlt_gateway.http.bodies.shown import shown
from tlt_gateway.http.openai.unsupported import IGNORED, SAMPLED
from tlt_gateway.http.session import salt_of
from tlt_gateway.http.text.text import Text

COMPLETION_NAMES = {
    "token_ids": "prompt",
    "session_id": "X-Session-ID",
    "request_id": "request_id",
    "cache_salt": "cache_salt",
    "samples_per_prompt": "n",
    "sampling.max_new_tokens": "max_tokens",
    "sampling.min_new_tokens": "min_tokens",
    "sampling.": "",
}
GENERATE_NAMES = {
    "token_ids": "token_ids",
    "session_id": "X-Session-ID",
    "request_id": "request_id",
    "cache_salt": "cache_salt",
    "samples_per_prompt": "sampling_params.n",
    "sampling.max_new_tokens": "sampling_params.max_tokens",
    "sampling.min_new_tokens": "sampling_params.min_tokens",
    "sampling.": "sampling_params.",
}
DEFAULT_TOKENS = 16
"""OpenAI's default of max_tokens."""


class SamplingBody(Body):
    """Sampling parameters shared by all calls."""

    max_tokens: int | None = DEFAULT_TOKENS
    min_tokens: int = 0
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    top_k: int | None = 0
    min_p: float | None = 0.0
    frequency_penalty: float | None = 0.0
    presence_penalty: float | None = 0.0
    repetition_penalty: float | None = 1.0
    stop_token_ids: list[int] | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool = False
    no_stop_trim: bool = False
    ignore_eos: bool = False
    seed: int | None = None
    n: int = 1
    skip_special_tokens: bool = True
    prompt_logprobs: int | None = None

    @property
    def prompt_logprobs_start(self) -> int | None:
        """Position from which log-probabilities of the prompt are asked for."""
        return None if self.prompt_logprobs is None else 0

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The stop strings."""
        return strings_of(self.stop)

    @property
    def keeps_stop(self) -> bool:
        """Whether a response's text includes the stop that ended it, under vLLM's name or SGLang's."""
        return self.include_stop_str_in_output or self.no_stop_trim

    def require_prompt_logprobs(self, *, streams: bool = False) -> None:
        """
        Check what is asked of the prompt's log-probabilities.

        Raises:
            InvalidRequestError: Those of other tokens are asked for, or a stream, which has no place for them in vLLM.
        """
        field = f"{self.path}prompt_logprobs"
        if self.prompt_logprobs not in {None, 0, 1}:
            raise InvalidRequestError(
                f"{field} is {self.prompt_logprobs}; accepted: 0 or 1, which return those of the prompt's own tokens, "
                "or leave it out",
                field=field,
            )
        if streams and self.prompt_logprobs is not None:
            raise InvalidRequestError(f"{field}; accepted: without stream", field=field)

    def params(self) -> SamplingParams:
        """
        Return our parameters.

        Raises:
            InvalidRequestError: A number is out of range.
        """
        return SamplingParams(
            max_new_tokens=self.max_tokens,
            min_new_tokens=self.min_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k in {None, -1} else self.top_k or 0,
            min_p=self.min_p or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
            repetition_penalty=1.0 if self.repetition_penalty is None else self.repetition_penalty,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            stop=self.stop_strings,
            ignore_eos=self.ignore_eos,
            seed=self.seed,
        )


def one_name(rid: str | None, request_id: str) -> str:
    """
    Return the id of a call, which SGLang and vLLM name differently; empty if it has none.

    Raises:
        InvalidRequestError: It has two ids.
    """
    if rid and request_id and rid != request_id:
        raise InvalidRequestError(
            f"rid is {shown(rid)} and request_id {shown(request_id)}; accepted: one of them", field="rid"
        )
    return rid or request_id


class CompletionStreamOptions(Body):
    """`stream_options`."""

    path: ClassVar[str] = "stream_options."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {"continuous_usage_stats": (None, False)}

    include_usage: bool = False


class CompletionRequest(SamplingBody):
    """The body of /v1/completions."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **SAMPLED,
        "response_format": (None, {"type": "text"}),
        "add_special_tokens": (None, True),
        "store": (None, False),
    }
    ignored: ClassVar[Mapping[str, type]] = IGNORED

    model: str | None = None
    prompt: str | list[str] | list[int] | list[list[int]]
    stream: bool = False
    stream_options: CompletionStreamOptions | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False
    logprobs: int | None = None
    request_id: str = ""
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    lora_path: str | list[str | None] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompts given as text."""
        given = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        return tuple(one for one in given if isinstance(one, str))

    @property
    def count(self) -> int:
        """Number of prompts."""
        given = self.prompt
        return len(given) if isinstance(given, list) and given and isinstance(given[0], list | str) else 1

    async def prompts(self, text: Text, session: str) -> list[Prompt]:
        """
        Return the prompts.

        Raises:
            InvalidRequestError: A field is invalid.
        """
        sampling = self.params()
        given = one_name(self.rid, self.request_id)
        found = await self._token_ids(text)
        names = [given] if len(found) == 1 else [f"{given}-{i}" for i in range(len(found))]
        return [
            Prompt(
                request_id=RequestId(name if given else ""),
                token_ids=tuple(ids),
                sampling=sampling,
                session_id=session,
                cache_salt=salt_of(self.cache_salt, self.extra_key),
                prompt_logprobs_start=self.prompt_logprobs_start,
            )
            for name, ids in zip(names, found, strict=True)
        ]

    async def _token_ids(self, text: Text) -> Sequence[Sequence[int]]:
        given: Any = self.prompt
        if isinstance(given, str) or (given and isinstance(given[0], str)):
            return await text.encoded([given] if isinstance(given, str) else given, field="prompt")
        return given if given and isinstance(given[0], list) else [given]


class TokenSampling(SamplingBody):
    """`sampling_params` of /inference/v1/generate."""

    path: ClassVar[str] = "sampling_params."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {**SAMPLED, "lora_path": (None,), "output_kind": (None, 2)}

    logprobs: int | None = None
    routed_experts_prompt_start: int | None = None
    """
    Position at which answers start to list the experts of each token. Servers return experts only if started for it.
    """


class TokenGenerate(Body):
    """The body of /inference/v1/generate."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **dict.fromkeys(("features", "kv_transfer_params"), (None,)),
        "priority": (None, 0),
        "stream": (None, False),
        "stream_options": (None,),
    }

    token_ids: list[int]
    sampling_params: TokenSampling
    cache_salt: str | None = None
    model: str | None = None
    request_id: str = ""

    def prompt(self, session: str) -> Prompt:
        """
        Return the prompt.

        Raises:
            InvalidRequestError: A field is invalid.
        """
        return Prompt(
            request_id=RequestId(self.request_id),
            token_ids=tuple(self.token_ids),
            sampling=self.sampling_params.params(),
            session_id=session,
            cache_salt=salt_of(self.cache_salt),
            prompt_logprobs_start=self.sampling_params.prompt_logprobs_start,
        )
