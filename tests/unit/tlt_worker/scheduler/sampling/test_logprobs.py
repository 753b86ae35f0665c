"""Kinds of logprobs, in a batch where every request wants another."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tlt_common.domain.prompt import LogprobKind
from tlt_worker.scheduler.sampling.logprobs import kinds_of, plain_logprobs, requested_kinds, verify_logprobs

POLICY, RAW, TRUNCATED = LogprobKind
UNTOUCHED = 7.0


def settings() -> Any:
    return SimpleNamespace(
        temperatures=torch.tensor([[0.5], [0.5], [0.5]]),
        top_ks=torch.tensor([2, 2, 2]),
        top_ps=torch.ones(3),
        min_ps=torch.zeros(3),
        need_top_k_sampling=True,
        need_top_p_sampling=False,
        need_min_p_sampling=False,
    )


def expected(logits: Tensor, token: int, kind: LogprobKind) -> float:
    if kind is RAW:
        return float(logits.log_softmax(-1)[token])
    return float((logits[logits.topk(2).indices] / 0.5).log_softmax(-1)[logits.topk(2).indices.tolist().index(token)])


def test_requests_that_want_what_sglang_reports_cost_nothing() -> None:
    def req(kind: str) -> Any:
        return SimpleNamespace(sampling_params=SimpleNamespace(custom_params={"tlt_logprobs": kind}))

    assert kinds_of([req("policy"), req("policy")]) == ()
    assert kinds_of([req("policy"), req("raw")]) == (POLICY, RAW)


def test_verified_tokens_have_the_kind_of_their_request() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 5)  # three requests with two nodes each
    predict = logits.argmax(-1)
    accept_index = torch.tensor([[0, 1], [2, -1], [4, 5]])
    output = SimpleNamespace(next_token_logits=logits, next_token_logprobs=torch.full((3, 2), UNTOUCHED))
    token = requested_kinds.set((POLICY, RAW, TRUNCATED))
    try:
        batch = SimpleNamespace(sampling_info=settings())
        verify_logprobs(lambda *_, **__: None, batch, output, predict, accept_index=accept_index)
    finally:
        requested_kinds.reset(token)
    said = output.next_token_logprobs
    assert said[0].tolist() == [UNTOUCHED] * 2
    assert float(said[1, 0]) == pytest.approx(expected(logits[2], int(predict[2]), RAW))
    for place, node in enumerate((4, 5)):
        assert float(said[2, place]) == pytest.approx(expected(logits[node], int(predict[node]), TRUNCATED))


def test_the_first_token_has_the_kind_of_its_request() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 5)
    before, drawn = logits.clone(), logits.argmax(-1)
    output = SimpleNamespace(next_token_logits=logits, next_token_logprobs=torch.full((3,), UNTOUCHED))

    def sample(_: Any, made: Any, info: Any) -> Tensor:
        made.next_token_logits.div_(info.temperatures).softmax(-1)
        return drawn

    token = requested_kinds.set((POLICY, RAW, TRUNCATED))
    try:
        assert plain_logprobs(sample, None, output, settings()) is drawn
    finally:
        requested_kinds.reset(token)
    assert output.next_token_logprobs.tolist() == pytest.approx(
        [UNTOUCHED, expected(before[1], int(drawn[1]), RAW), expected(before[2], int(drawn[2]), TRUNCATED)]
    )
