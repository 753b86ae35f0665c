"""The file of collected responses: reads existing responses and adds new ones."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import PROMPT, RESPONSE

NUMBER, SAMPLE = "prompt", "sample"
"""Keys that say which response to which prompt a line is."""


class CollectedResponses:
    """
    A file of rollouts, one per line, to which responses are added as they finish. A truncated last line is removed.

    Args:
        file: The file; it may be absent.
        prompts: All prompts, by number.
        asked: Sampling parameters, which also determine the responses. Written to every line.

    Raises:
        ConfigError: The file has responses to other prompts, or with other sampling parameters, or cannot be read or
            written.
    """

    def __init__(self, file: Path, prompts: Sequence[tuple[int, ...]], asked: Mapping[str, float]) -> None:
        self._file, self._prompts, self._asked = file, prompts, dict(asked)
        self.done = set[tuple[int, int]]()
        """Prompt and sample of each response in the file."""
        self._stream: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            content = self._file.read_bytes() if self._file.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            for number, line in enumerate(whole.splitlines(), 1):
                self._note(line, f"{self._file}:{number}")
            self._stream = self._file.open("a")
            self._stream.truncate(len(whole))
        except OSError as error:
            raise ConfigError(f"--to: {self._file} cannot be written: {error.strerror}", field="to") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream:
            self._stream.close()

    def add(self, prompt: int, sample: int, token_ids: Sequence[int]) -> None:
        """
        Write a response.

        Raises:
            OSError: The file cannot be written.
        """
        assert self._stream  # noqa: S101 - entered
        line = {PROMPT: self._prompts[prompt], RESPONSE: list(token_ids), NUMBER: prompt, SAMPLE: sample, **self._asked}
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()
        self.done.add((prompt, sample))

    def _note(self, line: bytes, place: str) -> None:
        try:
            values: dict[str, Any] = json_of(line)
            prompt, sample = int(values[NUMBER]), int(values[SAMPLE])
            is_own = tuple(values[PROMPT]) == self._prompts[prompt]
            different = [key for key, value in self._asked.items() if values[key] != value]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ConfigError(f"--to: {place} is not of this collection; name another file", field="to") from error
        if not is_own or different:
            what = f"another {different[0]}" if different else "another prompt"
            raise ConfigError(f"--to: {place} has {what}; continue with the same, or name another file", field="to")
        self.done.add((prompt, sample))
