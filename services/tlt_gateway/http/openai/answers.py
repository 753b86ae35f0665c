"""Answers in OpenAI's format, with token ids as vLLM returns them."""

import time
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_gateway.http.answers import spans
from tlt_gateway.http.openai.requests import CompletionRequest, TokenGenerate
from tlt_gateway.http.openai.usage import finish_of, usage
from tlt_gateway.http.text.response_text import ResponseText
from tlt_gateway.http.text.text import Text


class Choice:
    """
    One choice of /v1/completions, complete or streamed.

    Args:
        body: The call.
        text: Decodes tokens.
        prompt: The prompt.
        place: Index of the choice.
    """

    def __init__(self, body: CompletionRequest, text: Text, prompt: Prompt, place: int) -> None:
        self._body = body
        self._text = text
        self._prompt = prompt
        self._place = place
        decoder = text.decoder(after=prompt.token_ids, skip_special_tokens=body.skip_special_tokens)
        self._said = ResponseText(decoder, prompt.sampling.stop, keeps_stop=body.keeps_stop)
        self.tokens = 0
        """Tokens so far."""
        self.ended: TokenChunk | None = None
        """The last chunk."""

    def added(self, chunk: TokenChunk) -> dict[str, JsonValue]:
        """Return the choice with the tokens of a chunk."""
        ids, text = list(chunk.token_ids), "".join(self._said.added(chunk))
        self.tokens += len(ids)
        self.ended = chunk if chunk.finish_reason else None
        found: dict[str, Any] = {
            "index": self._place,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_of(chunk.finish_reason),
            "stop_reason": self._said.ended_by,
            "matched_stop": self._said.ended_by,
        }
        if self._body.logprobs is not None:
            as_ids = self._body.return_tokens_as_token_ids
            names, logprobs = [self._text.name(token, as_id=as_ids) for token in ids], list(chunk.logprobs)
            found["logprobs"] = {
                "tokens": names,
                "token_logprobs": logprobs,
                "top_logprobs": [{name: logprob} for name, logprob in zip(names, logprobs, strict=True)],
                "text_offset": self._said.offsets,
            }
        if self._body.prompt_logprobs is not None:
            found["prompt_logprobs"] = prompt_logprobs(self._prompt.token_ids, chunk)
        if self._body.return_token_ids:
            found["token_ids"] = ids
            found["prompt_token_ids"] = list(self._prompt.token_ids)
        return found


def completion(
    body: CompletionRequest, text: Text, model: str, prompts: Sequence[Prompt], chunks: Sequence[TokenChunk]
) -> dict[str, JsonValue]:
    """Return the answer to /v1/completions."""
    choices = [Choice(body, text, prompts[place // body.n], place) for place in range(len(chunks))]
    shown: list[JsonValue] = [choice.added(chunk) for choice, chunk in zip(choices, chunks, strict=True)]
    last = chunks[-1].policy_versions
    return {
        **_head(body, model, chunks[0]),
        "choices": shown,
        "usage": _usage(body, prompts, choices),
        "metadata": {"weight_version": str(last[-1] if last else 0), "weight_versions": spans(last)},
    }


def part(body: CompletionRequest, model: str, chunk: TokenChunk, choice: Choice) -> dict[str, JsonValue]:
    """Return one event of a stream."""
    return {**_head(body, model, chunk), "choices": [choice.added(chunk)], "usage": None}


def usage_part(
    body: CompletionRequest, model: str, prompts: Sequence[Prompt], choices: Sequence[Choice]
) -> dict[str, JsonValue]:
    """Return the last event of a stream, with the token usage that the caller requested."""
    ended = next(choice.ended for choice in choices if choice.ended)
    return {**_head(body, model, ended), "choices": [], "usage": _usage(body, prompts, choices)}


def _usage(body: CompletionRequest, prompts: Sequence[Prompt], choices: Sequence[Choice]) -> dict[str, JsonValue]:
    return usage(
        sum(len(prompt.token_ids) for prompt in prompts),
        sum(choice.tokens for choice in choices),
        [choice.ended.stats if choice.ended else None for choice in choices],
        samples=body.n,
    )


def _head(body: CompletionRequest, model: str, chunk: TokenChunk) -> dict[str, JsonValue]:
    return {
        "id": body.rid or f"cmpl-{request_of(chunk)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": body.model or model,
    }


def tokens(body: TokenGenerate, chunks: Sequence[TokenChunk]) -> dict[str, JsonValue]:
    """Return the answer to /inference/v1/generate."""
    found: dict[str, JsonValue] = {}
    if body.sampling_params.prompt_logprobs is not None:
        found["prompt_logprobs"] = prompt_logprobs(body.token_ids, chunks[0])
    return found | {
        "request_id": request_of(chunks[0]),
        "choices": [_sample(place, chunk, body) for place, chunk in enumerate(chunks)],
        "usage": usage(
            len(body.token_ids),
            sum(len(chunk.token_ids) for chunk in chunks),
            [chunk.stats for chunk in chunks],
            samples=len(chunks),
        ),
    }


def _sample(place: int, chunk: TokenChunk, body: TokenGenerate) -> dict[str, Any]:
    found: dict[str, Any] = {
        "index": place,
        "token_ids": list(chunk.token_ids),
        "finish_reason": finish_of(chunk.finish_reason),
        "weight_versions": spans(chunk.policy_versions),
    }
    if body.sampling_params.logprobs is not None:
        found["logprobs"] = {
            "content": [
                {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
                for token, logprob in zip(chunk.token_ids, chunk.logprobs, strict=True)
            ]
        }
    return found


def prompt_logprobs(token_ids: Sequence[int], chunk: TokenChunk) -> list[JsonValue] | None:
    """
    Return the log-probabilities of a prompt's tokens in vLLM's format; None if the response was aborted before its
    first token. Nothing precedes the first token of a prompt.

    Unlike vLLM's, they have no `rank`: clients that look for the most likely tokens must not find the prompt's.
    """
    if (found := chunk.prompt_logprobs) is None:
        return None
    entries: list[JsonValue] = [None]
    for token, logprob in zip(token_ids[1:], found.logprobs, strict=True):
        entries.append({str(token): {"logprob": logprob}})
    return entries


def request_of(chunk: TokenChunk) -> str:
    """Return the id of a call, given the id of one of its responses."""
    return chunk.request_id.rpartition("/")[0] or chunk.request_id
