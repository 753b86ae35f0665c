"""What the campaign calls a violation: changed responses, overlapping leases, gaps in the ledger, leftovers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_bench.campaign.suite import leases, ledger
from tlt_bench.campaign.suite.chronicle import Chronicle
from tlt_bench.campaign.suite.left_behind import Traces
from tlt_bench.campaign.suite.requests import GROUP, difference, draw
from tlt_bench.campaign.suite.verdict import surplus
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import FinishReason, TokenChunk

WHOLE = TokenChunk(
    request_id=RequestId("r"),
    token_ids=(5, 6, 7),
    logprobs=(-1.0, -2.0, -0.5),
    policy_versions=(PolicyVersion(1), PolicyVersion(1), PolicyVersion(2)),
    finish_reason=FinishReason.LENGTH,
)
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "token 1 of 3 is 9, undisturbed 6": {"token_ids": (5, 9, 7)},
    "has 2 tokens, undisturbed 3": {
        "token_ids": (5, 6),
        "logprobs": (-1.0, -2.0),
        "policy_versions": (PolicyVersion(1),) * 2,
    },
    "has 3 tokens, but 2 logprobs": {"logprobs": (-1.0, -2.0)},
    "logprob 2 is": {"logprobs": (-1.0, -2.0, -0.502)},
    "logprob 0 is nan": {"logprobs": (float("nan"), -2.0, -0.5)},
    "ended by abort, undisturbed by length": {"finish_reason": FinishReason.ABORT},
    "goes back to an older policy version": {"policy_versions": (PolicyVersion(2), PolicyVersion(1), PolicyVersion(2))},
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_of_a_response_is_found(what: str) -> None:
    assert difference(replace(WHOLE, **CHANGES[what]), WHOLE).startswith(what)


def test_rounding_and_newer_versions_are_no_changes() -> None:
    newer = (PolicyVersion(3), PolicyVersion(4), PolicyVersion(4))
    assert not difference(replace(WHOLE, logprobs=(-1.0005, -2.0, -0.5), policy_versions=newer), WHOLE)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_a_group_of_requests_is_a_batch_with_the_same_seeds(seed: int, groups: int) -> None:
    requests = draw(groups, seed=seed, min_tokens=10, max_tokens=50)
    assert [request.number for request in requests] == list(range(groups * GROUP))
    for first in requests[::GROUP]:
        for place, request in enumerate(requests[first.number : first.number + GROUP]):
            assert first.sampling.seed is not None
            assert request.sampling == replace(first.sampling, seed=first.sampling.seed + place)


@pytest.mark.parametrize(
    "text",
    [
        '{"event": "a"}\n{"event": "b"}\n',
        '\rLoading weights:  50%|{"event": "a"}\nno JSON {\n{"event": "b"}',  # a progress bar leaves its line open
        '{"event": "a"}{"event": "b"}\n\n',
        '{"other": {}}\n{"event": "a", "what": {"x": "}"}} {"half": \n[{"event": "b"}]',
    ],
)
def test_events_are_found_wherever_they_begin_in_a_line(text: str) -> None:
    assert [event["event"] for event in leases.events(text)] == ["a", "b"]


def log(*events: tuple[str, int]) -> str:
    return "\n".join(json.dumps({"event": name, "epoch": epoch, "worker_id": "w"}) for name, epoch in events)


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([("lease_begun", 3), ("lease_over", 3), ("lease_begun", 5), ("lease_over", 5)], 0),
        ([("lease_begun", 3), ("lease_over", 4), ("lease_begun", 4)], 0),  # 4 followed 3 without a gap
        ([("lease_begun", 3), ("trainer_started", 0), ("lease_begun", 4)], 0),  # the first trainer died
        ([("lease_begun", 3), ("lease_begun", 4)], 1),
        ([("lease_begun", 4), ("lease_over", 3)], 1),
        ([("lease_begun", 3), ("lease_begun", 4), ("lease_over", 3)], 2),
    ],
)
def test_leases_overlap_if_a_trainer_begins_before_another_has_stopped(
    events: list[tuple[str, int]], count: int
) -> None:
    assert len(leases.overlaps("w", leases.events("not JSON\n" + log(*events) + "\n{broken"))) == count


def test_a_coordinator_never_grants_an_epoch_twice_nor_an_older_one() -> None:
    granted = log(("lease_granted", 1), ("lease_granted", 2), ("lease_granted", 2), ("lease_granted", 1))
    assert len(leases.repeated_epochs(leases.events(granted))) == 2


@given(st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 5), st.floats(0, 5), st.floats(-20, 20))
def test_a_ledger_may_grow_only_by_the_time_that_passes(
    sum_s: float, between_s: float, first_s: float, second_s: float, off_s: float
) -> None:
    """However long the readings take; what is off by more than they took is found."""
    first = ledger.Reading(before_s=100.0, after_s=100.0 + first_s, sums_s={"w": sum_s})
    began_s = 100.0 + first_s + between_s
    grown_s = began_s - 100.0 + off_s
    second = ledger.Reading(before_s=began_s, after_s=began_s + second_s, sums_s={"w": sum_s + grown_s})
    slack_s = ledger.ROUNDING_S + 1e-6
    if off_s > second_s + slack_s or off_s < -first_s - slack_s:
        assert ledger.gaps(first, second)
    elif -first_s <= off_s <= second_s:
        assert not ledger.gaps(first, second)


def test_a_worker_that_disappears_from_the_ledger_is_a_gap() -> None:
    first = ledger.Reading(before_s=0.0, after_s=0.0, sums_s={"w": 5.0})
    assert ledger.gaps(first, ledger.Reading(before_s=9.0, after_s=9.0, sums_s={}))


def test_processes_more_than_at_the_start_are_left_behind_and_fewer_are_not() -> None:
    chronicle = Chronicle(lambda _: None)
    assert surplus({"engine": 2, "trainer": 2}, {"engine": 3, "trainer": 1, "other": 1}, chronicle) == 2
    assert len(chronicle.findings) == 2


def test_a_directory_that_remains_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "file").touch()
    shared = tmp_path / "segment"
    shared.touch()
    traces = Traces(token="none", directory=tmp_path / "spool", shared_memory=frozenset({shared}))  # noqa: S106 - a marker
    assert traces.left() == [f"{tmp_path / 'spool'} is left, with 1 files", f"{shared} is left"]


def test_a_finding_names_what_happened_during_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    chronicle = Chronicle(lambda _: None)
    chronicle.note("SIGKILL of tuner")
    now_s[0] = 12.0
    chronicle.note("cut client connections")
    now_s[0] = 13.0
    chronicle.find("request 7 lost", since_s=11.0)
    assert chronicle.findings == ["3.0 s: request 7 lost (during cut client connections at 2.0 s)"]
