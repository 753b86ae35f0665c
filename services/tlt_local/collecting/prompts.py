"""Files of prompts: JSON lines with text, a conversation, or token ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError
from tlt_common.text.special_tokens import SpecialTokens
from tlt_gateway.http.resident.child import RefusedError
from tlt_gateway.http.text.rendering import render
from tlt_gateway.http.text.template import DEFAULT, sources_of
from tlt_gateway.http.text.tokenizer import load_tokenizer

KEYS = ("prompt_token_ids", "messages", "prompt")
ACCEPTED = (
    "accepted: a JSON object per line with one of prompt_token_ids (token ids), messages (for the chat template) and "
    "prompt (text)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """Converts prompts to token ids."""

    encode: Callable[[str], list[int]]
    """Encodes text."""
    chat: Callable[[list[dict[str, Any]]], list[int]]
    """Encodes a conversation with the start of the answer. Raises ValueError if it does not fit the template."""
    vocab_size: int


def tokenizer_of(model: Path) -> Tokenizer:
    """
    Return the tokenizer of a checkpoint. Uses the gateway's code, so that prompts are encoded as over HTTP.

    Raises:
        ConfigError: There is no checkpoint, or it has no tokenizer.
    """
    if not model.is_dir():
        raise ConfigError(f"--model: {model} is not a directory; accepted: a Hugging Face checkpoint", field="model")
    found = load_tokenizer(model)
    templates, special = sources_of(model), SpecialTokens.of(model).named

    def chat(messages: list[dict[str, Any]]) -> list[int]:
        if DEFAULT not in templates:
            raise ValueError("the checkpoint has no chat template; accepted: prompt or prompt_token_ids")
        try:
            text = render(templates[DEFAULT], messages, None, continues=False, add_generation_prompt=True, **special)
        except RefusedError as error:
            raise ValueError(f"does not fit the chat template: {error}") from error
        return found.encode(text, add_special_tokens=False).ids

    return Tokenizer(encode=lambda text: found.encode(text).ids, chat=chat, vocab_size=found.get_vocab_size())


def read_prompts(file: Path, tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    """
    Return the token ids of each prompt.

    Raises:
        ConfigError: The file cannot be read or has no prompt, or a line is invalid; the message names line and key.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"--prompts: {file} cannot be read: {error.strerror}", field="prompts") from error
    found = [_prompt(line, f"{file}:{number}", tokenizer) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"--prompts: {file} has no prompts; {ACCEPTED}", field="prompts")
    return found


def _prompt(line: bytes, place: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    try:
        values = json_of(line)
    except ValueError as error:
        raise ConfigError(f"--prompts: {place} is not JSON: {error}", field="prompts") from error
    keys = [key for key in KEYS if key in values] if isinstance(values, dict) else []
    if len(keys) != 1:
        raise ConfigError(f"--prompts: {place} has {' and '.join(keys) or 'no prompt'}; {ACCEPTED}", field="prompts")
    try:
        ids = _encoded(keys[0], values[keys[0]], tokenizer)
    except ValueError as error:
        raise ConfigError(f"--prompts: {place}: {keys[0]}: {error}", field="prompts") from error
    if not ids:
        raise ConfigError(f"--prompts: {place}: {keys[0]} is empty; accepted: at least one token", field="prompts")
    return tuple(ids)


def _encoded(key: str, value: Any, tokenizer: Tokenizer) -> Sequence[int]:
    """
    Raises:
        ValueError: The value is invalid.
    """
    if key == "prompt_token_ids":
        highest = tokenizer.vocab_size - 1
        if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= highest for one in value):
            raise ValueError(f"not a list of token ids; accepted: integers from 0 to {highest}")
        return value
    if key == "prompt":
        if not isinstance(value, str):
            raise ValueError("not text; accepted: a string")
        return tokenizer.encode(value)
    if not isinstance(value, list) or not all(
        isinstance(one, dict) and isinstance(one.get("role"), str) for one in value
    ):
        raise ValueError("not a conversation; accepted: a list of objects with role and content")
    return tokenizer.chat(value)
