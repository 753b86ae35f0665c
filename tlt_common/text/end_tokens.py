"""
End tokens of a model's responses: a single definition for engine, gateway and offline tools.

SGLang ends a response at all tokens named by config.json, generation_config.json or the tokenizer, and at a few turn
ends that some checkpoints do not name. A base model tuned on chats often names its end of turn in the tokenizer only.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tlt_common.text.special_tokens import TOKENIZER, SpecialTokens, object_of

TURN_ENDS = ("<|eom_id|>", "<|content_model_end_sampling|>", "<|ifm|im_end|>")
"""Added tokens that end a turn although no file says so: `_ADDITIONAL_STOP_TOKEN_TEXTS` of SGLang."""
_CONFIGS = ("config.json", "generation_config.json")


def end_tokens(model: Path) -> frozenset[int]:
    """
    Return the end tokens of a model's directory.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not what transformers writes.
    """
    return frozenset(_configured(model)) | tokenizer_end_tokens(model)


def tokenizer_end_tokens(model: Path) -> frozenset[int]:
    """
    Return the end tokens of a model's tokenizer only: its eos_token, and turn ends among its added tokens.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not what transformers writes.
    """
    special, tokenizer = SpecialTokens.of(model), object_of(model / TOKENIZER)
    added = {str(one["content"]): int(one["id"]) for one in tokenizer.get("added_tokens") or ()}
    added |= {str(one["content"]): token for token, one in special.added.items()}
    end = special.named.get("eos_token")
    found = {added[text] for text in (end, *TURN_ENDS) if text in added}
    if end is not None and end not in added and (token := _in_vocabulary(tokenizer, end)) is not None:
        found.add(token)
    return frozenset(found)


def _configured(model: Path) -> Iterable[int]:
    for name in _CONFIGS:
        yield from ids_of(object_of(model / name).get("eos_token_id"))


def ids_of(given: Any) -> tuple[int, ...]:
    """Return the ids in a field `eos_token_id`, which holds one id, a list, or nothing."""
    return tuple(given) if isinstance(given, list | tuple | set | frozenset) else () if given is None else (int(given),)


def _in_vocabulary(tokenizer: dict[str, Any], text: str) -> int | None:
    model = tokenizer.get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(pieces, dict):
        found = pieces.get(text)
        return found if isinstance(found, int) else None
    if isinstance(pieces, list):  # unigram: pairs of piece and score
        return next((place for place, piece in enumerate(pieces) if piece and piece[0] == text), None)
    return None
