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
    search = StopSearch(decoder_of(stops.tokenizer), stops.strings, min_tokens=stops.min_tokens)
    prefix, kept = prefix_of(self), search.tokens(new_accepted_len)
    tokens = list(self.output_ids[-kept:])
    if missing := kept - len(tokens):
        tokens = [*self.origin_input_ids[-missing:], *tokens]
    found = search.first(tokens, length=prefix + len(self.output_ids), new=new_accepted_len)
    if found is None:
        return False
    finished_len = found[0] - prefix
    if self._check_token_based_finish(self.output_ids[-new_accepted_len:]) and self.finished_len < finished_len:
        return True
    from sglang.srt.managers.schedule_batch import FINISH_MATCHED_STR

    self.finished_reason, self.finished_len = FINISH_MATCHED_STR(matched=found[1]), finished_len
    return True


def require_decodable(arrived: Any) -> None:
    """
    Load the tokenizer, at the first request with stop strings.

    Raises:
        InvalidRequestError: It cannot be loaded.
    """
    if (stops := StopStrings.of(arrived)) is None:
        return
    try:
        decoder_of(stops.tokenizer)
    except Exception as error:  # tokenizers raises Exception itself
        raise InvalidRequestError(
            f"sampling.stop: {stops.tokenizer} cannot be loaded: {error}; accepted: sampling.stop_token_ids",
            field="sampling.stop",
        ) from error


@cache
def decoder_of(tokenizer: str) -> Callable[[list[int]], str]:
    """Return a function that decodes tokens with a tokenizer.json, special tokens included."""
    return partial(Tokenizer.from_file(tokenizer).decode, skip_special_tokens=False)
