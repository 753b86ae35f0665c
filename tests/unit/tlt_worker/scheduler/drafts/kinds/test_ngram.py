"""What the index hears of a scheduler's rounds, processed at once or one round late."""

from array import array
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.drafts.kinds.ngram import Retrieval
from tlt_worker.scheduler.drafts.ngram_index import NgramIndex

STRIDE = 4
"""Tokens verified per request and round."""


@dataclass(eq=False)
class FakeRequest:
    """What the scheduler keeps of a request."""

    rid: str
    origin_input_ids: "array[int]"
    output_ids: "array[int]" = field(default_factory=lambda: array("q"))
    limit: int = 1000
    cache_salt: str | None = None
    custom_params: dict[str, Any] = field(default_factory=dict)

    @property
    def sampling_params(self) -> "FakeRequest":
        return self

    def finished(self) -> bool:
        return len(self.output_ids) >= self.limit

    @property
    def output_ids_through_stop(self) -> "array[int]":
        return self.output_ids[: self.limit]


@dataclass(eq=False)
class FakeBatch:
    reqs: list[FakeRequest]

    @property
    def seq_lens(self) -> torch.Tensor:
        return torch.zeros(len(self.reqs))


@dataclass(eq=False)
class FakeResult:
    """A round's tokens, padded, on their way to the CPU."""

    next_token_ids: torch.Tensor
    accept_lens: torch.Tensor | None
    copy_done: "FakeResult | None" = None
    is_there: bool = False

    def synchronize(self) -> None:
        self.is_there = True


def result_of(brought: list[list[int]], *, prefill: bool) -> FakeResult:
    if prefill:
        return FakeResult(torch.tensor([tokens[0] for tokens in brought]), None)
    padded = [[*tokens, *[-1] * (STRIDE - len(tokens))] for tokens in brought]
    made = FakeResult(torch.tensor(padded).flatten(), torch.tensor([len(tokens) for tokens in brought]))
    made.copy_done = made
    return made


def commit(batch: FakeBatch, brought: list[list[int]]) -> None:
    """As the scheduler's processing does, before the hook is called."""
    for req, tokens in zip(batch.reqs, brought, strict=True):
        if not req.finished():
            req.output_ids.extend(tokens)


def request(rid: str, limit: int = 1000) -> FakeRequest:
    return FakeRequest(rid, array("q", [1, 2, 3]), limit=limit)


def said(retrieval: Retrieval, rid: str) -> list[int]:
    """The response the index has of a request that runs."""
    known = retrieval.index._requests[rid]
    return retrieval.index._groups[known.prompt].running[rid].tokens[known.head :].tolist()


rounds = st.lists(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=STRIDE), min_size=2, max_size=2), max_size=12
)


@pytest.mark.parametrize("overlap", [False, True])
@given(rounds)
def test_before_a_round_all_tokens_so_far_are_known(overlap: bool, heard: list[list[list[int]]]) -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    batch = FakeBatch([request("a"), request("b")])
    waiting: list[tuple[FakeResult, list[list[int]]]] = []
    whole: list[list[int]] = [[], []]

    def process() -> None:
        result, brought = waiting.pop(0)
        commit(batch, brought)
        retrieval.processed(batch, result)

    for turn, round_ in enumerate([[[7], [8]], *heard]):
        if turn:
            found = retrieval.find(batch, 3)
            assert [said(retrieval, "a"), said(retrieval, "b")] == whole
            assert found == sum(map(len, retrieval.found))
        result = result_of(round_, prefill=turn == 0)
        retrieval.launched(batch, result)
        waiting.append((result, round_))
        whole = [before + tokens for before, tokens in zip(whole, round_, strict=True)]
        if len(waiting) > overlap:
            process()
    while waiting:
        process()
    assert [said(retrieval, "a"), said(retrieval, "b")] == whole == [list(req.output_ids) for req in batch.reqs]


def run_to_the_end(retrieval: Retrieval, name: str, limit: int) -> None:
    """One request by itself; the last round brings more than it may say."""
    batch = FakeBatch([request(name, limit)])
    for turn in range(limit):
        brought = [[4, 5, 6]] if turn else [[9]]
        result = result_of(brought, prefill=turn == 0)
        retrieval.launched(batch, result)
        commit(batch, brought)
        retrieval.processed(batch, result)


def test_a_finished_request_leaves_what_it_really_said() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    run_to_the_end(retrieval, "a", 5)
    assert not retrieval.index._requests
    (group,) = retrieval.index._groups.values()
    assert group.finished[0].tokens.tolist() == [1, 2, 3, 9, 4, 5, 6, 4]
    batch = FakeBatch([request("b")])
    commit(batch, [[9]])
    assert retrieval.find(batch, 3) == 3
    assert retrieval.drafts(batch, 5).tolist() == [[4, 5, 6, 0, 0]]


def test_a_resumed_request_belongs_to_its_prompt() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    run_to_the_end(retrieval, "a", 5)
    resumed = FakeRequest("b", array("q", [1, 2, 3, 9, 4]), limit=3, custom_params={"tlt_prefix": 2})
    batch = FakeBatch([resumed])
    assert retrieval.find(batch, 2) == 2
    assert retrieval.found == [[5, 6]]
    resumed.output_ids.extend([5, 6, 7, 8])
    retrieval.processed(batch, result_of([[5, 6, 7, 8]], prefill=False))
    (group,) = retrieval.index._groups.values()
    assert group.finished[0].tokens.tolist() == [1, 2, 3, 9, 4, 5, 6, 7]


def test_nothing_is_looked_up_for_a_request_that_must_not_be_drafted_for() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    run_to_the_end(retrieval, "a", 5)
    batch = FakeBatch([request("b"), request("c")])
    batch.reqs[0].custom_params["tlt_speculation_off"] = True
    commit(batch, [[9], [9]])
    assert retrieval.find(batch, 3) == 3
    assert retrieval.found == [[], [4, 5, 6]]


def test_thousands_of_requests_leave_nothing_but_texts() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    sizes = set()
    for number in range(3000):
        run_to_the_end(retrieval, str(number), 5)
        if number > 100:
            sizes.add(retrieval.index.size_bytes)
    assert not retrieval.index._requests
    assert not retrieval._launched
    assert len(sizes) == 1


def test_a_round_that_was_thrown_away_is_forgotten() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    batch = FakeBatch([request("a")])
    commit(batch, [[9]])
    result = result_of([[5, 6]], prefill=False)
    retrieval.launched(batch, result)
    retrieval.find(batch, 3)
    assert said(retrieval, "a") == [9, 5, 6]
    retrieval.processed(batch, result)  # retracted meanwhile: its request got nothing
    assert said(retrieval, "a") == [9]


def test_an_overshooting_round_of_a_finished_request_does_not_bring_it_back() -> None:
    retrieval = Retrieval(index=NgramIndex(2**20))
    run_to_the_end(retrieval, "a", 5)
    late = FakeBatch([FakeRequest("a", array("q", [1]), array("q", [1] * 5), limit=5)])
    retrieval.processed(late, result_of([[1]], prefill=False))
    assert retrieval.index.length("a") is None
