"""Counts the tokens of texts, for trainers that only log texts."""

from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError

FILE = "tokenizer.json"


class TextCounter:
    """
    Counts tokens with the model's tokenizer, without keeping the texts.

    Raises:
        ConfigError: The tokenizer is missing or cannot be loaded.
    """

    def __init__(self, tokenizer: str) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError(
                "tokenizer needs the package tokenizers; accepted: pip install tokenizers", field="tokenizer"
            ) from error
        path = Path(tokenizer)
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise ConfigError(
                f"tokenizer: {path} is missing; accepted: a {FILE}, or the directory of a model that has one",
                field="tokenizer",
            )
        try:
            loaded: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            raise ConfigError(f"tokenizer: {path} cannot be loaded; accepted: a {FILE}", field="tokenizer") from error
        loaded.no_truncation()
        loaded.no_padding()
        self._tokenizer = loaded

    def count(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens that a template would add."""
        valid = [text.encode("utf-8", "replace").decode() for text in texts]  # a lone surrogate is not text
        return [len(one) for one in self._tokenizer.encode_batch_fast(valid, add_special_tokens=False)]
