"""Small tokenizers of every kind that checkpoints have, made for tests."""

from collections.abc import Callable, Mapping

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

WORDS = ("the", "weather", "is", "sunny", "a", "b", "abc", ",", ".", "s")
SPECIAL = ["<unk>", "<s>", "</s>"]


def byte_level() -> Tokenizer:
    """GPT-2's kind: 256 bytes, and pieces of words."""
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "Ġa", "Ġthe", "the", "ĠÃ", "Ã¤"]
    tokenizer = Tokenizer(models.BPE(_ids(pieces), [("t", "h"), ("Ġ", "a"), ("th", "e"), ("Ġ", "the"), ("Ã", "¤")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _special(tokenizer)


def byte_fallback() -> Tokenizer:
    """Llama 2's kind: words after ▁, and one token per byte of what is none."""
    pieces = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"thea", "▁t", "▁th", "▁the", "▁a"]
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("▁", "a")]
    model = models.BPE(_ids(pieces), merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)  # noqa: S106
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0),
    ])  # fmt: skip
    return _special(tokenizer)


def unigram() -> Tokenizer:
    """T5's kind: scored pieces after ▁, and bytes."""
    pieces = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *(f"▁{word}" for word in WORDS), *WORDS]
    model = models.Unigram([(piece, -1.0) for piece in dict.fromkeys(pieces)], unk_id=0, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return _special(tokenizer)


def word_piece() -> Tokenizer:
    """BERT's kind: words, and ## before what continues one."""
    pieces = [*SPECIAL, *WORDS, *(f"##{word}" for word in WORDS)]
    tokenizer = Tokenizer(models.WordPiece(_ids(pieces), unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _special(tokenizer)


def _ids(pieces: list[str]) -> dict[str, int]:
    return {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}


def _special(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


KINDS: Mapping[str, Callable[[], Tokenizer]] = {
    one.__name__: one for one in (byte_level, byte_fallback, unigram, word_piece)
}
