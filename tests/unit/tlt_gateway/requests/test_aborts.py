from dataclasses import replace

import pytest

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_gateway.requests import aborts
from tlt_gateway.requests.aborts import REMEMBERED_S, Aborts


def attempt(request_id: str, number: int = 1) -> Prompt:
    return Prompt(request_id=RequestId(request_id), token_ids=(1,), attempt=number)


def remembered(*request_ids: str) -> Aborts:
    found = Aborts()
    found.remember("", [RequestId(request_id) for request_id in request_ids], now_s=0.0)
    return found


def test_a_later_attempt_is_concerned_by_its_id_or_that_of_its_prompt() -> None:
    found = remembered("r", "b")
    for name, expected in (("r", True), ("b/3", True), ("other", False), ("r2", False), ("r/0/1", False)):
        assert found.concern(attempt(name), now_s=1.0) is expected, name


def test_an_empty_id_concerns_nobody_else() -> None:
    assert not remembered("").concern(attempt("r"), now_s=1.0)


@pytest.mark.parametrize("prefix", [(), (5, 6)], ids=["plain", "prefix"])
def test_a_first_attempt_is_a_new_request_whose_later_attempts_are_served(prefix: tuple[int, ...]) -> None:
    found = remembered("r", "b")
    for name in ("r", "b/3"):
        assert not found.concern(replace(attempt(name, 0), prefix_token_ids=prefix), now_s=1.0)
        assert not found.concern(attempt(name), now_s=2.0)


def test_an_abort_is_forgotten_after_its_time_and_renewed_by_another() -> None:
    found = remembered("r", "again")
    found.remember("", [RequestId("again")], now_s=1.0)
    assert found.concern(attempt("r"), now_s=REMEMBERED_S - 1)
    assert not found.concern(attempt("r"), now_s=REMEMBERED_S)
    assert found.concern(attempt("again"), now_s=REMEMBERED_S)


def test_the_oldest_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aborts, "MAX_REMEMBERED", 3)
    found = remembered("a", "b", "c")
    found.remember("", [RequestId("a"), RequestId("d")], now_s=1.0)
    assert [name for name in "abcd" if found.concern(attempt(name), now_s=2.0)] == ["a", "c", "d"]


def test_an_abort_concerns_its_owners_requests_only() -> None:
    found = Aborts()
    found.remember("mine", [RequestId("r")], now_s=0.0)
    assert found.concern(replace(attempt("r"), owner="mine"), now_s=1.0)
    assert not found.concern(replace(attempt("r"), owner="theirs"), now_s=1.0)
