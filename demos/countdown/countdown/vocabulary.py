"""
The tiny reasoner's vocabulary of 160 words, and the tokenizer files built from it.

One word is one token: special tokens, the numbers 0 to 99, the words of a trace, and unused words to pad to a multiple
of 32. Ids are part of the shipped checkpoint, so words may only be appended.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
NUMBERS = tuple(str(number) for number in range(100))
PROBLEM_WORDS = ("Numbers", "Target", ".", ",", ";", ":", "=", "+", "-", "*")
VERDICT_WORDS = ("left", "is", "too", "small", "big", "right", "Answer")
OPENERS = ("Let me try", "Maybe use", "What about", "Start over with", "Hmm , suppose", "Another idea :")
REMARKS = ("", "No .", "Not there yet .", "That fails .")
RESTATING_WORDS = ("Got", "want", "for")
VOCABULARY_SIZE = 160


def _build() -> dict[str, int]:
    phrases = " ".join(OPENERS + REMARKS).split()
    words = dict.fromkeys((*SPECIALS, *NUMBERS, *PROBLEM_WORDS, *VERDICT_WORDS, *phrases, *RESTATING_WORDS))
    unused = (f"<extra{index}>" for index in range(len(words), VOCABULARY_SIZE))
    return {word: index for index, word in enumerate((*words, *unused))}


VOCABULARY = _build()
"""Word to token id."""

WORDS = tuple(VOCABULARY)
"""Token id to word."""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = (VOCABULARY[word] for word in SPECIALS)


def encode(text: str) -> list[int]:
    """
    Return the token ids of `text`, whose words are separated by spaces. No special token is added.

    Raises:
        KeyError: A word is not in the vocabulary.
    """
    return [VOCABULARY[word] for word in text.split()]


def decode(ids: Iterable[int]) -> str:
    """Return the words of `ids`, including special tokens, joined by spaces."""
    return " ".join(WORDS[index] for index in ids)


def prompt_ids(prompt: str) -> list[int]:
    """Return the token ids of a prompt as the saved tokenizer produces them, beginning-of-text token first."""
    return [BOS_ID, *encode(prompt)]


def response_text(ids: Sequence[int]) -> str:
    """Return the response up to its end token, without the token and any padding after it."""
    return decode(ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids)


def save_tokenizer(directory: Path) -> None:
    """
    Write `tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` (and so SGLang and TRL) loads.

    Encoding prepends `<bos>` unless special tokens are disabled, as Llama's tokenizers do.
    """
    # Imported here: programs that only need the word list start seconds faster without transformers.
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pad, bos, eos, unk = SPECIALS
    words = Tokenizer(models.WordLevel(VOCABULARY, unk_token=unk))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, BOS_ID)])
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call,unused-ignore]
        tokenizer_object=words, pad_token=pad, bos_token=bos, eos_token=eos, unk_token=unk
    )
    tokenizer.save_pretrained(directory)
