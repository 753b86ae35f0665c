"""What n-grams find in responses, with and without the text of earlier ones to the same prompts."""

from collections import defaultdict
from dataclasses import dataclass

from tlt_bench.adapt.data import Frames
from tlt_worker.scheduler.drafts.ngram_index import NgramIndex

DRAFTS = 5
"""As the default arm finds them."""
INDEX_BYTES = 2**30


@dataclass(slots=True, kw_only=True)
class _Response:
    name: str
    prompt: list[int]
    tokens: list[int]
    done: int = 0


def replayed(frames: Frames, earlier: Frames) -> float:
    """
    Return the tokens per request and round of n-gram drafts in these responses, all decoded together.

    Args:
        frames: Whole responses.
        earlier: Whole responses that had ended before.
    """
    index = NgramIndex(INDEX_BYTES)
    for ended in _responses(earlier, "earlier"):
        index.begin(ended.name, ended.prompt)
        index.extend(ended.name, ended.tokens)
        index.finish(ended.name, len(ended.tokens))
    running = _responses(frames, "response")
    tokens, rounds = sum(len(each.tokens) - 1 for each in running), 0
    for each in running:
        index.begin(each.name, each.prompt)
        _decode(index, each, 1)
    while running := [each for each in running if each.done < len(each.tokens)]:
        for each in running:
            rest = each.tokens[each.done :]
            drafts = index.draft(each.name, DRAFTS)
            kept = next(
                (place for place, pair in enumerate(zip(drafts, rest, strict=False)) if pair[0] != pair[1]), None
            )
            _decode(index, each, min(len(rest), (min(len(drafts), len(rest)) if kept is None else kept) + 1))
            rounds += 1
    return tokens / max(1, rounds)


def _decode(index: NgramIndex, response: _Response, count: int) -> None:
    index.extend(response.name, response.tokens[response.done : response.done + count])
    response.done += count
    if response.done == len(response.tokens):
        index.finish(response.name, response.done)


def _responses(frames: Frames, prefix: str) -> list[_Response]:
    """Put the windows of each response together again."""
    windows: defaultdict[str, Frames] = defaultdict(list)
    for frame in frames:
        windows[frame.header.request_id].append(frame)
    found = list[_Response]()
    for name, parts in windows.items():
        ids = list[int]()
        for part in sorted(parts, key=lambda frame: frame.header.start):
            ids[part.header.start :] = part.token_ids.tolist()
        count = parts[0].header.prompt_tokens
        found.append(_Response(name=f"{prefix}-{name}", prompt=ids[:count], tokens=ids[count:]))
    return found
