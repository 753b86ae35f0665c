"""Recorded rollouts: files of JSON lines with token ids."""

from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFile:
    """
    A file with one object per line, with `prompt_token_ids` and `token_ids`; other keys are ignored.

    Iteration reads line by line. It raises ConfigError, which names line and key, if the file cannot be read or is
    empty, or a line is invalid.
    """

    path: Path
    vocab_size: int
    context_length: int | None = None
    """Maximum tokens of a rollout; None for any number."""
    option: str = "--data"
    """The option that names the file, for messages."""

    def __iter__(self) -> Iterator[RecordedRollout]:
        found = False
        try:
            with self.path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        found = True
                        yield self._rollout(line, f"{self.path}:{number}")
        except OSError as error:
            raise self._refused(f"{self.path} cannot be read: {error}") from error
        if not found:
            raise self._refused(f"{self.path} has no rollouts; accepted: a JSON object per line")

    def _rollout(self, line: bytes, place: str) -> RecordedRollout:
        try:
            values = json_of(line)
        except ValueError as error:
            raise self._refused(f"{place} is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise self._refused(f"{place} is not a JSON object; the file must have one per line")
        prompt, response = self._ids(values, PROMPT, place), self._ids(values, RESPONSE, place)
        if self.context_length is not None and len(prompt) + len(response) > self.context_length:
            raise self._refused(
                f"{place}: {PROMPT} and {RESPONSE} have {len(prompt) + len(response)} tokens; accepted: up to "
                f"{self.context_length}, the context length"
            )
        return RecordedRollout(prompt=prompt, response=response)

    def _ids(self, values: dict[str, Any], key: str, place: str) -> tuple[int, ...]:
        ids = values.get(key)
        if (
            not isinstance(ids, list)
            or not ids
            or not all(type(token_id) is int and 0 <= token_id < self.vocab_size for token_id in ids)
        ):
            accepted = f"a list of at least one token id from 0 to {self.vocab_size - 1}"
            raise self._refused(f"{place}: {key} is missing or invalid; accepted: {accepted}")
        return tuple(ids)

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.option}: {problem}", field=self.option.removeprefix("--"))
