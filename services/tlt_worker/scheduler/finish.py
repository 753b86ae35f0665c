"""When a response ends: three rules that SGLang decides otherwise. Used inside SGLang's processes only."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tlt_common.text.end_tokens import tokenizer_end_tokens


def finish_before_abort(original: Callable[..., None], self: Any, new_accepted_len: int = 1) -> None:
    """
    Wrap `Req.update_finish_state`, which looks at an abort first and then at nothing else.

    Its round has added tokens by then. If an end token is among them, the tokens up to it are the whole response;
    returned as aborted, with all that was accepted behind it, a caller that continues from them would continue after
    the end. An abort that reports an error stays one.
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
    """Wrap `Req._check_token_based_finish`, in which `ignore_eos` disables `stop_token_ids` too: the caller's stop."""
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
    Wrap `ModelConfig._get_hf_eos_token_id`: SGLang asks its tokenizer for further ones, which it does not have here.

    A minimum length suppresses all of them, and `ignore_eos` ignores them. Those outside the vocabulary are never
    sampled, and would be an index outside a tensor.
    """
    found = (original(self) or set()) | tokenizer_end_tokens(Path(self.model_path))
    return {token for token in found if 0 <= token < self.vocab_size}
