"""The special tokens of a model's directory, as transformers reads them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

CONFIG, LEGACY, TOKENIZER = "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"
STANDARD = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_GPT2 = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
_QWEN = {"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
CLASSES: Mapping[str, Mapping[str, str]] = {
    "LlamaTokenizer": _LLAMA,
    "CodeLlamaTokenizer": _LLAMA,
    "GPT2Tokenizer": _GPT2,
    "GPTNeoXTokenizer": _GPT2,
    "Qwen2Tokenizer": _QWEN,
    "GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "CohereTokenizer": {"bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>"},
}
"""What transformers' classes of causal language models assume if the files do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The special tokens of one model."""

    named: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by name, such as eos_token: the variables of chat templates."""
    others: tuple[str, ...] = ()
    """Special tokens without a name."""
    added: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Tokens that tokenizer_config.json adds to tokenizer.json, with their description, by id."""

    @classmethod
    def of(cls, directory: Path) -> Self:
        """
        Read the special tokens of a model's directory, which may have none.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is not what transformers writes.
        """
        config = object_of(directory / CONFIG)
        given = dict(config)
        if "added_tokens_decoder" not in config:
            given |= object_of(directory / LEGACY)
        extra = given.get("extra_special_tokens") or given.get("additional_special_tokens") or []
        names = [name for name in given if name.endswith("_token") and not name.startswith("add_")]
        known = {name: text for name in names if (text := _text(given[name]))}
        if isinstance(extra, dict):
            known |= {str(name): text for name, one in extra.items() if (text := _text(one))}
            extra = []
        kind = str(config.get("tokenizer_class") or "").removesuffix("Fast")
        padding = object_of(directory / TOKENIZER).get("padding")
        pads = {"pad_token": _text(padding.get("pad_token"))} if isinstance(padding, dict) else {}
        defaults = {**CLASSES.get(kind, {}), **pads}
        assumed = {name: text for name, text in defaults.items() if text and name not in given}
        added = given.get("added_tokens_decoder") or {}
        if not isinstance(extra, list) or not isinstance(added, dict):
            raise ValueError(f"{CONFIG}: extra_special_tokens or added_tokens_decoder has another type")  # noqa: TRY004
        return cls(
            named=assumed | known,
            others=tuple(filter(None, map(_text, extra))),
            added={int(token): one for token, one in added.items() if isinstance(one, dict) and one.get("content")},
        )


def object_of(path: Path) -> dict[str, Any]:
    """
    Return the JSON object in a file; an empty one if the file does not exist.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file contains something else.
    """
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} is not a JSON object")  # noqa: TRY004 - of what is in a file
    return content


def _text(value: Any) -> str:
    """Return a special token's text; empty if it is not one."""
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else ""
