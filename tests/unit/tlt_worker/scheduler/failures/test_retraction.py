"""No answer is lost in the processing of a round that fails half-way."""

from types import SimpleNamespace
from typing import Any

from tlt_worker.scheduler.failures.retraction import settle


def req(name: str, *, tokens: int, logprobs: int, ended: bool = False, holds_kv: bool = True, **other: Any) -> Any:
    one = SimpleNamespace(
        rid=name,
        output_ids=list(range(tokens)),
        logprob=SimpleNamespace(output_token_logprobs_val=[0.0] * logprobs),
        finished_reason="stop" if ended else None,
        finished_len=tokens if ended else None,
        kv=SimpleNamespace(holds_kv=holds_kv),
        return_logprob=True,
        is_retracted=False,
    )
    one.finished = lambda: one.finished_reason is not None
    vars(one).update(other)
    return one


def settled(*reqs: Any) -> list[str]:
    """Settle a batch; return the names of the requests whose output was sent."""
    sent: list[str] = []
    streamer = SimpleNamespace(stream_output=lambda ended, _: sent.extend(one.rid for one in ended))
    settle(SimpleNamespace(output_streamer=streamer), SimpleNamespace(reqs=list(reqs), return_logprob=True))
    return sent


def test_a_request_that_ended_before_the_failure_is_sent() -> None:
    done = req("done", tokens=5, logprobs=5, ended=True, holds_kv=False)
    assert settled(done, req("other", tokens=3, logprobs=3)) == ["done"]
    assert done.finished()


def test_a_request_that_failed_half_way_goes_on_from_its_last_complete_token() -> None:
    failing = req("failing", tokens=7, logprobs=4, ended=True)
    assert settled(failing) == []
    assert not failing.finished()
    assert (failing.output_ids, failing.finished_len) == ([0, 1, 2, 3], None)


def test_requests_that_were_not_reached_or_were_retracted_keep_what_they_have() -> None:
    untouched = req("untouched", tokens=3, logprobs=3)
    retracted = req("retracted", tokens=5, logprobs=4, is_retracted=True)
    assert settled(untouched, retracted) == []
    assert (len(untouched.output_ids), len(retracted.output_ids)) == (3, 5)
