"""What a round whose processing failed half-way leaves behind in its requests."""

from typing import Any


def settle(scheduler: Any, batch: Any) -> None:
    """
    Send what the processing finished, and take back what it began.

    SGLang sends the outputs of a batch at the end of its processing. A request that ended before the failure would
    otherwise be neither sent nor run again. One that failed half-way has tokens without logprobs, and may have ended
    without its KV cache having been freed: it runs again from its last complete token.
    """
    ended = []
    for req in batch.reqs:
        if req.is_retracted:
            continue
        if req.finished() and not req.kv.holds_kv:
            ended.append(req)
            continue
        req.finished_reason = req.finished_len = None
        if req.return_logprob:
            del req.output_ids[len(req.logprob.output_token_logprobs_val) :]
    scheduler.output_streamer.stream_output(ended, batch.return_logprob)
