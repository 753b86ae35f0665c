"""Collected rollouts: a file of JSON lines with token ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError

PROMPT, RESPONSE = "prompt_token_ids", "token_ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRollout:
    """One response of the policy."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and response."""
        return self.prompt + self.response


def read_rollouts(path: Path, *, vocab_size: int) -> list[RecordedRollout]:
    """
    Read a file with one object per line, of which `prompt_token_ids` and `token_ids` are read.

    Raises:
        ConfigError: The file cannot be read or has no rollouts, or a line is invalid; names the line and the key.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"--data: {path} cannot be read: {error}", field="data") from error
    found = [_rollout(line, f"{path}:{number}", vocab_size) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"--data: {path} has no rollouts; accepted: a JSON object per line", field="data")
    return found


def _rollout(line: bytes, place: str, vocab_size: int) -> RecordedRollout:
    try:
        values = json_of(line)
    except ValueError as error:
        raise ConfigError(f"--data: {place} is not JSON: {error}", field="data") from error
    if not isinstance(values, dict):
        raise ConfigError(f"--data: {place} is not a JSON object; the file must have one per line", field="data")
    return RecordedRollout(
        prompt=_ids(values, PROMPT, place, vocab_size), response=_ids(values, RESPONSE, place, vocab_size)
    )


def _ids(values: dict[str, Any], key: str, place: str, vocab_size: int) -> tuple[int, ...]:
    ids = values.get(key)
    if (
        not isinstance(ids, list)
        or not ids
        or not all(type(token_id) is int and 0 <= token_id < vocab_size for token_id in ids)
    ):
        accepted = f"a list of at least one token id from 0 to {vocab_size - 1}"
        raise ConfigError(f"--data: {place}: {key} is missing or invalid; accepted: {accepted}", field="data")
    return tuple(ids)
