"""
Trials of SGLang's request fields. A field without one must be refused by name, whatever its value.

The names are read from SGLang's own classes, so that a field which a new version adds is tried too.
"""

import dataclasses
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.conformance.sides import OTHER_IDS, PERIOD, UNSOLVED
from tests.conformance.verdicts import Trial
from tlt_worker.engine.device import CPU

STOPPED = MappingProxyType({"stop_token_ids": [PERIOD]})
RANDOM = MappingProxyType({"temperature": 3.0})
"""Sampling that practically never generates the greedy answer."""
_SEEDED = "SGLang ignores seeds unless it is started for deterministic inference"
_CACHED = "SGLang reports what was cached only if it is started for that"
_NOT_READ = "concerns logs and metrics"


def _texts(content: Any) -> Any:
    return content["text"] if isinstance(content, dict) else [answer["text"] for answer in content]


def _reason(content: Any) -> Any:
    return content["meta_info"]["finish_reason"], content["output_ids"]


def _logprobs(content: Any) -> Any:
    return content["meta_info"].get("output_token_logprobs")


def _is_new(content: Any) -> Any:
    return content["meta_info"]["cached_tokens"] == 0


GENERATE: Mapping[str, Trial] = {
    "rid": Trial(change={"rid": "mine"}, seen=lambda content: content["meta_info"]["id"] == "mine"),
    "text": Trial(change={"text": "use 1 2 3 4 for 9 :"}, seen=_texts),
    "input_ids": Trial(change={"text": None, "input_ids": list(OTHER_IDS)}, seen=_texts),
    "sampling_params": Trial(change={"sampling_params": {"max_new_tokens": 3}}, seen=_texts),
    "return_logprob": Trial(change={"return_logprob": True}, seen=_logprobs),
    "logprob_start_len": Trial(
        base={"return_logprob": True},
        change={"logprob_start_len": 0},
        seen=lambda content: content["meta_info"]["input_token_logprobs"],
    ),
    "return_text_in_logprobs": Trial(
        base={"return_logprob": True}, change={"return_text_in_logprobs": True}, seen=_logprobs
    ),
    "return_prompt_token_ids": Trial(
        change={"return_prompt_token_ids": True}, seen=lambda content: content.get("prompt_token_ids")
    ),
    "stream": Trial(
        change={"stream": True}, seen=lambda content: isinstance(content, list) and content[-1]["output_ids"]
    ),
    # Everything was cached by then, but not under a key that nobody has used.
    "extra_key": Trial(change={"extra_key": "mine"}, seen=_is_new),
    "cache_salt": Trial(change={"cache_salt": "mine"}, seen=_is_new),
    "no_logs": Trial(change={"no_logs": True}, seen=_texts, unseen=_NOT_READ),
}

SAMPLING: Mapping[str, Trial] = {  # `text` is the prompt
    "max_new_tokens": Trial(change={"max_new_tokens": 3}, seen=_reason),
    "stop": Trial(change={"stop": "Got"}, seen=_texts),
    "stop_token_ids": Trial(change=STOPPED, seen=_reason),
    "temperature": Trial(base=RANDOM, change={"temperature": 0}, seen=_texts),
    "top_p": Trial(base=RANDOM, change={"top_p": 1e-6}, seen=_texts),
    "top_k": Trial(base=RANDOM, change={"top_k": 1}, seen=_texts),
    "min_p": Trial(base=RANDOM, change={"min_p": 1.0}, seen=_texts),
    "frequency_penalty": Trial(base={"text": UNSOLVED}, change={"frequency_penalty": 2.0}, seen=_texts),
    "presence_penalty": Trial(base={"text": UNSOLVED}, change={"presence_penalty": 2.0}, seen=_texts),
    "repetition_penalty": Trial(base={"text": UNSOLVED}, change={"repetition_penalty": 2.0}, seen=_texts),
    "min_new_tokens": Trial(base=STOPPED, change={"min_new_tokens": 18}, seen=_reason),
    "n": Trial(change={"n": 2}, seen=_texts),
    "ignore_eos": Trial(
        base={"max_new_tokens": 60},
        change={"ignore_eos": True},
        seen=_reason,
    ),
    "skip_special_tokens": Trial(
        base={"max_new_tokens": 60, "no_stop_trim": True}, change={"skip_special_tokens": False}, seen=_texts
    ),
    "spaces_between_special_tokens": Trial(
        change={"spaces_between_special_tokens": False},
        seen=_texts,
        unseen="concerns tokenizers without a tokenizer.json",
    ),
    "no_stop_trim": Trial(base=STOPPED, change={"no_stop_trim": True}, seen=_texts),
    "sampling_seed": Trial(change={"sampling_seed": 5}, seen=_texts, unseen=_SEEDED),
}


def _choices(content: Any) -> Any:
    return [choice["text"] for choice in content["choices"]]


def _choice(name: str) -> Any:
    return lambda content: content["choices"][0].get(name)


def _last_of(content: Any) -> Any:
    return content[-1]["usage"], content[-1]["choices"]


def _joined(content: Any) -> Any:
    return isinstance(content, list) and "".join(event["choices"][0]["text"] for event in content)


COMPLETION: Mapping[str, Trial] = {
    "extra_key": Trial(change={"extra_key": "mine"}, seen=_choices, unseen=_CACHED),
    "cache_salt": Trial(change={"cache_salt": "mine"}, seen=_choices, unseen=_CACHED),
    "user": Trial(change={"user": "me"}, seen=_choices, unseen="concerns accounts"),
    "model": Trial(change={"model": "other"}, seen=lambda content: content["model"]),
    "prompt": Trial(change={"prompt": list(OTHER_IDS)}, seen=_choices),
    "max_tokens": Trial(change={"max_tokens": 3}, seen=_choices),
    "n": Trial(change={"n": 2}, seen=_choices),
    "echo": Trial(change={"echo": True}, seen=_choices),
    "logprobs": Trial(change={"logprobs": 1}, seen=lambda content: content["choices"][0]["logprobs"] is not None),
    "stop": Trial(change={"stop": ["Got"]}, seen=_choices),
    "stream": Trial(change={"stream": True}, seen=_joined),
    "stream_options": Trial(
        base={"stream": True},
        change={"stream_options": {"include_usage": True}},
        seen=lambda content: content[-1]["usage"] is not None and content[-1]["choices"] == [],
    ),
    "temperature": Trial(base=RANDOM, change={"temperature": 0}, seen=_choices),
    "top_p": Trial(base=RANDOM, change={"top_p": 1e-6}, seen=_choices),
    "top_k": Trial(base=RANDOM, change={"top_k": 1}, seen=_choices),
    "min_p": Trial(base=RANDOM, change={"min_p": 1.0}, seen=_choices),
    "frequency_penalty": Trial(base={"prompt": UNSOLVED}, change={"frequency_penalty": 2.0}, seen=_choices),
    "presence_penalty": Trial(base={"prompt": UNSOLVED}, change={"presence_penalty": 2.0}, seen=_choices),
    "repetition_penalty": Trial(base={"prompt": UNSOLVED}, change={"repetition_penalty": 2.0}, seen=_choices),
    "min_tokens": Trial(base=STOPPED, change={"min_tokens": 18}, seen=_choices),
    "stop_token_ids": Trial(change=STOPPED, seen=_choice("matched_stop")),
    "no_stop_trim": Trial(base=STOPPED, change={"no_stop_trim": True}, seen=_choices),
    "ignore_eos": Trial(
        base={"max_tokens": 60}, change={"ignore_eos": True}, seen=lambda content: content["usage"]["completion_tokens"]
    ),
    "skip_special_tokens": Trial(
        base={"max_tokens": 60, "no_stop_trim": True}, change={"skip_special_tokens": False}, seen=_choices
    ),
    "seed": Trial(change={"seed": 5}, seen=_choices, unseen=_SEEDED),
    "return_token_ids": Trial(
        change={"return_token_ids": True},
        seen=lambda content: [content["choices"][0].get(name) for name in ("token_ids", "prompt_token_ids")],
    ),
    "rid": Trial(change={"rid": "mine"}, seen=lambda content: content["id"] == "mine"),
}


def fields_of(name: str) -> dict[str, Any]:
    """Return SGLang's request fields and their defaults: of `generate`, `sampling` or `completion`."""
    os.environ.update(CPU.variables())
    CPU.enter()
    from pydantic_core import PydanticUndefined
    from sglang.srt.entrypoints.openai.protocol import CompletionRequest
    from sglang.srt.managers.io_struct import GenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    if name == "generate":
        return {field.name: field.default for field in dataclasses.fields(GenerateReqInput)}
    if name == "sampling":
        return {each: getattr(SamplingParams(), each) for each in SamplingParams.__struct_fields__}
    found = {each: field.default for each, field in CompletionRequest.model_fields.items()}
    return {each: None if default is PydanticUndefined else default for each, default in found.items()}
