"""Token counts of texts, for logs without lengths."""

from collections.abc import Iterable, Iterator

from tlt_simulator.traces.form import ReadOptions
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

BATCH_CHARACTERS = 2**22
"""Texts that are held and counted at a time; the tokenizer uses all cores."""
COUNTED = (
    "tokens were counted in texts, which the trainer writes without special tokens: lengths may differ by a few tokens"
)


def counted(
    texts: Iterable[tuple[LineValues, str, str]], options: ReadOptions, field: str
) -> Iterator[tuple[LineValues, str, int, int]]:
    """
    Yield for each line, with the texts of its prompt and response: the line, the prompt, and the tokens of both.

    Raises:
        ConfigError: No tokenizer was given, or a text is absurdly long.
    """
    held, characters = list[tuple[LineValues, str, str]](), 0
    for one in texts:
        if options.count is None:
            raise refused(
                one[0].place,
                field,
                "is a text, and this trainer logs no lengths",
                "the tokenizer of the policy (tokenizer), with which tokens are counted",
            )
        held.append(one)
        characters += len(one[1]) + len(one[2])
        if characters > BATCH_CHARACTERS:
            yield from _counted(held, options, field)
            held, characters = [], 0
    yield from _counted(held, options, field)


def _counted(
    held: list[tuple[LineValues, str, str]], options: ReadOptions, field: str
) -> Iterator[tuple[LineValues, str, int, int]]:
    if not held or options.count is None:
        return
    options.note(COUNTED)
    prompts = list(dict.fromkeys(prompt for _, prompt, _ in held))
    tokens_of = dict(zip(prompts, options.count(prompts), strict=True))
    responses = options.count([response for _, _, response in held])
    for (line, prompt, _), tokens in zip(held, responses, strict=True):
        if max(tokens, tokens_of[prompt]) > MAX_TOKENS:
            raise refused(line.place, field, f"has {tokens} tokens", f"at most {MAX_TOKENS}")
        if tokens == 0:
            options.note("some texts are empty: their responses have special tokens alone, and count as 1 token")
        yield line, prompt, tokens_of[prompt], max(1, tokens)
