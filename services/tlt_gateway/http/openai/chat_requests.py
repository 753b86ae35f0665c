"""The bodies of /v1/chat/completions, its render call, /tokenize and /detokenize."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.body import Body
from tlt_gateway.http.openai.conversation import ConversationBody
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.openai.requests import SamplingBody, one_name
from tlt_gateway.http.openai.unsupported import CHAT, IGNORED, RETURNED
from tlt_gateway.http.session import salt_of
from tlt_gateway.http.text.text import Text

CHAT_NAMES = {
    "token_ids": "messages",
    "session_id": "X-Session-ID",
    "request_id": "request_id",
    "cache_salt": "cache_salt",
    "samples_per_prompt": "n",
    "sampling.max_new_tokens": "max_tokens",
    "sampling.min_new_tokens": "min_tokens",
    "sampling.": "",
}


ID_NAMES = {**CHAT_NAMES, "token_ids": "input_ids"}
"""Field names of calls whose prompt is given as tokens."""


class ChatStreamOptions(Body):
    """`stream_options`."""

    path: ClassVar[str] = "stream_options."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "continuous_usage_stats": (None, False),
        "include_obfuscation": (None, False),
    }

    include_usage: bool = False


class ChatRequest(ConversationBody, SamplingBody):
    """The body of /v1/chat/completions and of its render call."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = CHAT
    ignored: ClassVar[Mapping[str, type]] = IGNORED

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    stream: bool | None = False
    stream_options: ChatStreamOptions | None = None
    return_token_ids: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    return_prompt_token_ids: bool | None = False
    return_meta_info: bool | None = False
    input_ids: list[int] | None = None
    request_id: str = ""
    cache_salt: str | None = None
    rid: str | None = None
    lora_path: str | list[str | None] | None = None

    def params(self) -> SamplingParams:
        """
        Return our parameters. Without a limit, a response may use the rest of the context.

        Raises:
            InvalidRequestError: A number is out of range, or two limits differ.
        """
        limits = {limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None}
        if len(limits) > 1:
            raise InvalidRequestError(
                f"max_completion_tokens is {self.max_completion_tokens} and max_tokens {self.max_tokens}; "
                "accepted: one of them",
                field="max_completion_tokens",
            )
        return SamplingBody.params(self.model_copy(update={"max_tokens": limits.pop() if limits else None}))

    def require_consistent(self) -> None:
        """
        Check fields that depend on each other.

        Raises:
            InvalidRequestError: A field has no effect, or requests something that responses do not have.
        """
        if self.top_logprobs:
            raise InvalidRequestError(
                f"top_logprobs is {self.top_logprobs}; accepted: 0 or null, since only sampled tokens have "
                "log-probabilities",
                field="top_logprobs",
            )
        self.require_prompt_logprobs(streams=bool(self.stream))
        if asked := [name for name in RETURNED if self.stream and getattr(self, name)]:
            raise InvalidRequestError(f"{asked[0]}; accepted: without stream", field=asked[0])
        if self.stream_options is not None and not self.stream:
            raise InvalidRequestError("stream_options; accepted: with stream", field="stream_options")
        if self.add_generation_prompt is False and not self.continue_final_message:
            raise InvalidRequestError(
                "add_generation_prompt is False; accepted: true, since a response follows, or continue_final_message",
                field="add_generation_prompt",
            )

    def prompt(self, token_ids: list[int], session: str) -> Prompt:
        """
        Return the prompt.

        Raises:
            InvalidRequestError: A field is invalid.
        """
        return Prompt(
            request_id=RequestId(one_name(self.rid, self.request_id)),
            token_ids=tuple(token_ids),
            sampling=self.params(),
            session_id=session,
            cache_salt=salt_of(self.cache_salt),
            prompt_logprobs_start=self.prompt_logprobs_start,
        )


class Tokenize(ConversationBody):
    """The body of /tokenize: a prompt, or messages."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "mm_processor_kwargs": (None,),
    }

    prompt: str | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = False

    async def token_ids(self, text: Text, prompting: Prompting, *, owner: str, session: str) -> list[int]:
        """
        Return the tokens of the prompt, or of the messages as a response to them sees them.

        Raises:
            InvalidRequestError: Both or neither are given, there is no tokenizer, or the template refuses the messages.
        """
        if (self.prompt is None) == (not self.messages):
            raise InvalidRequestError("prompt or messages is required, and not both", field="prompt")
        if self.prompt is None:
            if self.add_special_tokens:
                raise InvalidRequestError(
                    "add_special_tokens is True; accepted: with prompt, since templates write them",
                    field="add_special_tokens",
                )
            return await prompting.prompt_ids(self, owner=owner, session=session)
        special = self.add_special_tokens is not False
        (found,) = await text.encoded([self.prompt], field="prompt", special_tokens=special)
        return found


class Detokenize(Body):
    """The body of /detokenize."""

    model: str | None = None
    tokens: list[int]
    skip_special_tokens: bool = False
