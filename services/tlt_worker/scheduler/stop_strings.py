"""
Ends responses at stop strings. Used inside SGLang's processes only.

In the scheduler, so that such a response ends like one with a stop token: with the token that completes the string,
whatever was accepted behind it, and as a finished response for the cache, the drafter's data and the statistics.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from tokenizers import Tokenizer

from tlt_common.errors import InvalidRequestError
from tlt_common.text.detokenizer import CONTEXT, Detokenizer, Vocabulary, lead_of
from tlt_worker.link.stop_strings import StopStrings
from tlt_worker.scheduler.sampling.penalties import prefix_of
from tlt_worker.scheduler.stop_search import StopSearch


def stop_at_strings(original: Callable[..., bool], self: Any, new_accepted_len: int = 1) -> bool:
    """
    Wrap `Req._check_str_based_finish`, which has no tokenizer here.

    An end token that a round accepted before a stop string ends the response, as it does without speculation.
    """
    stops = StopStrings.of(self)
    if stops is None:
        return original(self, new_accepted_len)
    found = _first(self, stops, new_accepted_len)
    if found is None:
        return False
    finished_len = found[0]
    if self._check_token_based_finish(self.output_ids[-new_accepted_len:]) and self.finished_len < finished_len:
        return True
    from sglang.srt.managers.schedule_batch import FINISH_MATCHED_STR

    self.finished_reason, self.finished_len = FINISH_MATCHED_STR(matched=found[1]), finished_len
    return True


def _first(req: Any, stops: StopStrings, new: int) -> tuple[int, str] | None:
    """Return the first stop string that one of a request's new tokens completes, and the length of its output then."""
    prefix, done = prefix_of(req), len(req.output_ids) - new
    search: StopSearch | None = getattr(req, "tlt_stop_search", None)
    if search is None or search.tokens > prefix + done:
        prompt = req.origin_input_ids[: len(req.origin_input_ids) - prefix]
        vocabulary = vocabulary_of(stops.tokenizer)
        text = Detokenizer(vocabulary, first=vocabulary.begins_after(list(prompt[-CONTEXT:])))
        search = req.tlt_stop_search = StopSearch(text, stops.strings, min_tokens=stops.min_tokens)
        for token in req.origin_input_ids[len(prompt) :]:
            search.add(token)
    for token in req.output_ids[search.tokens - prefix : done]:
        search.add(token)
    for place in range(done, done + new):
        if (found := search.add(req.output_ids[place])) is not None:
            return place + 1, found
    return None


def require_decodable(arrived: Any) -> None:
    """
    Load the tokenizer, at the first request with stop strings.

    Raises:
        InvalidRequestError: It cannot be loaded.
    """
    if (stops := StopStrings.of(arrived)) is None:
        return
    try:
        vocabulary_of(stops.tokenizer)
    except Exception as error:  # tokenizers raises Exception itself
        raise InvalidRequestError(
            f"sampling.stop: {stops.tokenizer} cannot be loaded: {error}; accepted: sampling.stop_token_ids",
            field="sampling.stop",
        ) from error


@cache
def vocabulary_of(tokenizer: str) -> Vocabulary:
    """Return the texts of tokens by a tokenizer.json, special tokens included."""
    found = Tokenizer.from_file(tokenizer)
    return Vocabulary(partial(found.decode, skip_special_tokens=False), lead_of(found))
