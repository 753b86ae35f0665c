"""SGLang's answers to /generate: text, output_ids and meta_info."""

import base64
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_gateway.http.answers import meta_info
from tlt_gateway.http.sglang.requests import GenerateBody
from tlt_gateway.http.text.response_text import ResponseText
from tlt_gateway.http.text.text import Text


class Answers:
    """
    The answers to one call.

    Args:
        body: The call.
        text: Decodes tokens.
        prompts: The prompts.
    """

    def __init__(self, body: GenerateBody, text: Text, prompts: Sequence[Prompt]) -> None:
        self._body = body
        self._text = text
        self._prompts = prompts
        self._began_s = time.monotonic()
        self._said: dict[int, _Said] = {}
        self._so_far: defaultdict[int, MergedChunk] = defaultdict(MergedChunk)

    def whole(self, responses: Sequence[TokenChunk]) -> Any:
        """Return the answer to the call, with complete responses."""
        found = [self.answer(place, response) for place, response in enumerate(responses)]
        return found if self._body.is_list else found[0]

    def grown(self, place: int, chunk: TokenChunk) -> dict[str, Any]:
        """Return the answer with all tokens so far, given the next ones."""
        so_far = self._so_far[place]
        so_far.add(chunk)
        return self.answer(place, so_far.whole())

    def answer(self, place: int, so_far: TokenChunk) -> dict[str, Any]:
        """Return the answer with all tokens so far. `place` is the sample's index over all prompts."""
        prompt = place // self._body.sampling(0).n
        before = self._prompts[prompt].token_ids
        sampling, ids = self._body.sampling(prompt), list(so_far.token_ids)
        if (said := self._said.get(place)) is None:
            decoder = self._text.decoder(after=before, skip_special_tokens=sampling.skip_special_tokens)
            stop = self._prompts[prompt].sampling.stop
            said = self._said[place] = _Said(ResponseText(decoder, stop, keeps_stop=sampling.no_stop_trim))
        rid = _rid(so_far.request_id, single=not self._body.is_list)
        meta = meta_info(so_far, self._prompts[prompt], rid=rid, limit=sampling.max_new_tokens, began_s=self._began_s)
        if so_far.routed_experts is not None:
            meta["routed_experts"] = base64.b64encode(so_far.routed_experts.int32()).decode()
        if self._body.wants_logprobs(prompt):
            if ids and not said.prompt_logprobs:
                said.prompt_logprobs = self._input_logprobs(prompt, so_far)
            meta["input_token_logprobs"] = list(said.prompt_logprobs)
            known = len(said.logprobs)
            said.logprobs += [
                [logprob, token, self._text_of(token)]
                for logprob, token in zip(so_far.logprobs[known:], ids[known:], strict=True)
            ]
            meta["output_token_logprobs"] = list(said.logprobs)
            meta["output_token_logprobs_length"] = len(ids)
        answer = {"text": said.so_far(so_far), "output_ids": ids, "meta_info": meta}
        return answer | ({"prompt_token_ids": list(before)} if self._body.return_prompt_token_ids else {})

    def _input_logprobs(self, prompt: int, so_far: TokenChunk) -> list[list[Any]]:
        """Return SGLang's entries for tokens of a prompt. The first one has no value, whatever its position."""
        ids = self._prompts[prompt].token_ids
        found = so_far.prompt_logprobs
        values = [None, *found.logprobs] if found is not None else [None]
        tokens = ids[self._body.logprob_start(prompt, len(ids)) :]
        return [[value, token, self._text_of(token)] for value, token in zip(values, tokens, strict=False)]

    def _text_of(self, token: int) -> str | None:
        """Return the text of a token, including special tokens, if the call asks for it."""
        wanted = self._body.return_text_in_logprobs
        return self._text.decoded([token], skip_special_tokens=False) if wanted else None


class _Said:
    """Incrementally decoded text of one response: each token is decoded once."""

    def __init__(self, grown: ResponseText) -> None:
        self._grown = grown
        self._text = ""
        self._count = 0
        self.prompt_logprobs: list[list[Any]] = []
        """The answer's entries for the prompt, which come with the first tokens."""
        self.logprobs: list[list[Any]] = []
        """The answer's entry for each token whose log-probability is known."""

    def so_far(self, chunk: TokenChunk) -> str:
        """Return the text of a response, given all its tokens so far."""
        self._text += "".join(self._grown.added(replace(chunk, token_ids=chunk.token_ids[self._count :])))
        self._count = len(chunk.token_ids)
        return self._text


def _rid(request_id: str, *, single: bool) -> str:
    return request_id.rpartition("/")[0] or request_id if single else request_id
