"""
An engine for OpenRLHF's agent executors (written for OpenRLHF 0.11.2), used in the file `--train.agent_func_path`.

    from openrlhf.utils.agent import SingleTurnAgentExecutor
    from tlt_common.integrations.openrlhf import TltEngine

    class AgentExecutor(SingleTurnAgentExecutor):
        engine = TltEngine("localhost:7700")

        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
            engine = self.engine.bound(hf_tokenizer)
            return await super().execute(prompt, label, sampling_params, max_length, hf_tokenizer, engine, images)

The executor receives the suite in place of the vLLM actor. It needs neither vLLM nor OpenRLHF to be imported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Self, Unpack

from tlt_common.client import Client, ClientOptions, FinishReason, SamplingParams, TokenChunk
from tlt_common.errors import AbortedError, InvalidRequestError
from tlt_common.integrations.sampling import KNOWN, arguments_of, end_tokens_of, ending_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """The log-probability of a sampled token, in vLLM's format."""

    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutput:
    """A response, in vLLM's format."""

    token_ids: list[int]
    text: str
    finish_reason: str
    """`stop` or `length`."""
    logprobs: list[dict[int, Logprob]] | None
    """By position, then by token id; None if not requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """The responses to a prompt, in vLLM's format; here always one."""

    outputs: list[CompletionOutput]


class TltEngine:
    """Replaces a vLLM engine in executors. Connects on the first request, in that request's event loop."""

    def __init__(
        self,
        endpoint: str | Sequence[str],
        *,
        tokenizer: Any = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """
        Create the engine.

        Args:
            endpoint: host:port of the gateway, or several of gateways that are replicas.
            tokenizer: Decodes responses, which also end at its end token; without one their text is empty.
            options: Those of `Client`. The token needs the scope generate.
        """
        signature(Client).bind(endpoint, **options)  # now, and not at the first request
        self._endpoint, self._options = endpoint, options
        self._tokenizer = tokenizer
        self._client: Client | None = None

    def bound(self, tokenizer: Any) -> Self:
        """Decode with this tokenizer, and end responses at its end token, from now on."""
        self._tokenizer = tokenizer
        return self

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def generate(
        self, prompt_token_ids: Sequence[int], sampling_params: Any, multi_modal_data: Any = None
    ) -> RequestOutput:
        """
        Generate one response.

        Args:
            prompt_token_ids: Token ids of the prompt.
            sampling_params: vLLM's SamplingParams, or an object with some of its fields.
            multi_modal_data: Must be None.

        Raises:
            InvalidRequestError: There are images, or a parameter is not supported.
            AbortedError: The response was aborted.
        """
        if multi_modal_data:
            raise InvalidRequestError("the prompt has images; only text is supported", field="multi_modal_data")
        if self._client is None:
            self._client = Client(self._endpoint, **self._options)
        sampling = ending_at(sampling_of(sampling_params), end_tokens_of(self._tokenizer))
        response = await self._client.generate(list(prompt_token_ids), sampling)
        if response.finish_reason is FinishReason.ABORT:
            raise AbortedError(f"request {response.request_id} was aborted")
        return RequestOutput(outputs=[self._output(response, sampling_params)])

    def _output(self, response: TokenChunk, params: Any) -> CompletionOutput:
        ids, wants_logprobs = list(response.token_ids), params.logprobs is not None
        pairs = zip(ids, response.logprobs, strict=True)
        return CompletionOutput(
            token_ids=ids,
            text=self._text(response, keeps_stop=getattr(params, "include_stop_str_in_output", False)),
            finish_reason=str(response.finish_reason),
            logprobs=[{token: Logprob(logprob=logprob)} for token, logprob in pairs] if wants_logprobs else None,
        )

    def _text(self, response: TokenChunk, *, keeps_stop: bool) -> str:
        """Return the text of a response. The text of its tokens may extend beyond the stop string."""
        if self._tokenizer is None:
            return ""
        stop, ids = response.matched_stop, list(response.token_ids)
        text = str(self._tokenizer.decode(ids, skip_special_tokens=False))
        if not stop:
            return text
        before = len(self._tokenizer.decode(ids[:-1], skip_special_tokens=False))
        at = text.find(stop, max(0, before - len(stop) + 1))
        return text if at < 0 else text[: at + (len(stop) if keeps_stop else 0)]


def sampling_of(params: Any) -> SamplingParams:
    """
    Convert vLLM's sampling parameters.

    Raises:
        InvalidRequestError: A parameter is not supported or out of range; the message names it.
    """
    return SamplingParams(**arguments_of({name: getattr(params, name) for name in KNOWN if hasattr(params, name)}))
