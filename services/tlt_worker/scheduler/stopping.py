"""
Ends responses at stop strings, and by three rules that differ from SGLang's. Used inside SGLang's processes only.

Stop strings are detected in the scheduler, so that a response ends as with a stop token: with the token that completes
the string, regardless of tokens accepted after it, and as a finished response for the cache, the drafter's data and the
statistics.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tlt_common.errors import InvalidRequestError
from tlt_common.text.detokenizer import CONTEXT, Detokenizer, Vocabulary, lead_of
from tlt_common.text.end_tokens import tokenizer_end_tokens
from tlt_worker.link.stop_strings import StopStrings
from tlt_worker.scheduler.sampling.penalties import prefix_of


def stop_at_strings(original: Callable[..., bool], self: Any, new_accepted_len: int = 1) -> bool:
    """
    Wrap `Req._check_str_based_finish`, which lacks a tokenizer here.

    An end token accepted before a stop string ends the response, as it does without speculation.
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
    """Return the first stop string that a request's new tokens complete, and the length of its output at that point."""
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
    Load the tokenizer on the first request with stop strings.

    Raises:
        InvalidRequestError: The tokenizer cannot be loaded.
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
    """Return the texts of tokens from a tokenizer.json, including special tokens."""
    found = Tokenizer.from_file(tokenizer)
    return Vocabulary(partial(found.decode, skip_special_tokens=False), lead_of(found))


def finish_before_abort(original: Callable[..., None], self: Any, new_accepted_len: int = 1) -> None:
    """
    Wrap `Req.update_finish_state`, which handles an abort before anything else.

    The round has added tokens by then. If an end token is among them, the response is complete up to it. If it were
    returned as aborted, with all tokens accepted after the end, a caller would continue after the end. An abort that
    reports an error stays an abort.
    """
    aborted = self.to_finish
    if aborted is None or getattr(aborted, "status_code", None) is not None:
        original(self, new_accepted_len)
        return
    self.to_finish = None
    original(self, new_accepted_len)
    if not self.finished():
        self.finished_reason = aborted


def stop_at_stop_tokens(original: Callable[..., bool], self: Any, new_accepted_tokens: Sequence[int]) -> bool:
    """Wrap `Req._check_token_based_finish`, in which `ignore_eos` also disables the caller's `stop_token_ids`."""
    params = self.sampling_params
    if not (params.ignore_eos and params.stop_token_ids):
        return original(self, new_accepted_tokens)
    kept = self.eos_token_ids, self.tokenizer
    self.eos_token_ids = self.tokenizer = None
    params.ignore_eos = False
    try:
        return original(self, new_accepted_tokens)
    finally:
        params.ignore_eos = True
        self.eos_token_ids, self.tokenizer = kept


def end_as_the_tokenizer_says(original: Callable[..., set[int] | None], self: Any) -> set[int]:
    """
    Wrap `ModelConfig._get_hf_eos_token_id`: SGLang reads further end tokens from its tokenizer, which it lacks here.

    A minimum length suppresses them, and `ignore_eos` ignores them. Tokens outside the vocabulary are dropped: they are
    never sampled and would be out-of-range indices.
    """
    found = (original(self) or set()) | tokenizer_end_tokens(Path(self.model_path))
    return {token for token in found if 0 <= token < self.vocab_size}


class StopSearch:
    """
    Searches a response's text for stop strings, regardless of its tokenization.

    Args:
        text: Decodes the response, special tokens included.
        strings: The stop strings. If one token completes several, the first in this order ends the response.
        min_tokens: Number of initial response tokens that no stop string can end.
    """

    def __init__(self, text: Detokenizer, strings: Sequence[str], *, min_tokens: int = 0) -> None:
        self._text = text
        self._strings = strings
        self._min_tokens = min_tokens
        self._kept = max(map(len, strings)) - 1
        self._tail = ""
        """The last characters of the text, with which a stop string may begin."""
        self.tokens = 0
        """Response tokens that were looked at."""

    def add(self, token: int) -> str | None:
        """Add a token of the response; return the stop string that it completes."""
        self.tokens += 1
        added = self._text.step(token)
        text, before = self._tail + added, len(self._tail)
        self._tail = text[max(0, len(text) - self._kept) :]
        if not added or self.tokens <= self._min_tokens:
            return None
        return next((one for one in self._strings if text.find(one, max(0, before - len(one) + 1)) >= 0), None)
