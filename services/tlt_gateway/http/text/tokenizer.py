"""Loads the tokenizer of a model directory as transformers and SGLang do."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from tlt_common.errors import ConfigError
from tlt_common.text.special_tokens import CONFIG, TOKENIZER, SpecialTokens, object_of

_BEGUN = ("LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer")
"""Classes whose texts begin with bos_token unless add_bos_token is false, whatever tokenizer.json says (SGLang's
`_fix_v5_add_bos_eos_token`)."""


def load_tokenizer(directory: Path) -> Tokenizer:
    """
    Load tokenizer.json, with the additions of tokenizer_config.json and special_tokens_map.json.

    Raises:
        ConfigError: The file is missing, or a file is damaged.
    """
    file = directory / TOKENIZER
    try:
        tokenizer = Tokenizer.from_file(str(file))
        file = directory / CONFIG
        special, config = SpecialTokens.of(directory), object_of(file)
        _add(tokenizer, special)
    except Exception as error:  # tokenizers raises Exception itself
        raise ConfigError(
            f"http.tokenizer: {file} cannot be loaded: {error}; accepted: a directory with a {TOKENIZER}",
            field="http.tokenizer",
        ) from error
    # The file may say how the tokenizer was trained or tried out. A prompt is neither cut nor filled up.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = bool(config.get("split_special_tokens", False))
    begin, kind = special.named.get("bos_token"), str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if begin and kind in _BEGUN and config.get("add_bos_token") in {None, True}:
        token = tokenizer.token_to_id(begin)
        tokenizer.post_processor = TemplateProcessing(single=[begin, "$A"], special_tokens=[(begin, token)])
    return tokenizer


def _add(tokenizer: Tokenizer, special: SpecialTokens) -> None:
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    described = [AddedToken(**one) for _, one in sorted(special.added.items()) if one["content"] not in known]
    tokenizer.add_tokens(described)
    # Named ones are special even if tokenizer.json has them as plain pieces: texts leave them out.
    tokenizer.add_special_tokens([*map(_special, _once([*special.named.values(), *special.others]))])


def _special(text: str) -> AddedToken:
    return AddedToken(text, special=True, normalized=False)


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
