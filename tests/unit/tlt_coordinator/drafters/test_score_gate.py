"""A drafter that is clearly worse than the fleet's newest is refused, but not for noise or a policy that moved on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import DrafterRecord, Publication
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_coordinator.drafters.score_gate import check_score

RECORD = DrafterRecord(
    version=DrafterVersion(3),
    worker_id=WorkerId("w0"),
    at_unix_s=0.0,
    held_out_top1=0.8,
    policy_version=PolicyVersion(10),
)


def offered(top1: float, *, base_top1: float | None = None, policy: int = 10) -> Publication:
    return Publication(
        base=DrafterVersion(3),
        uri="file:///4",
        worker_id=WorkerId("w1"),
        held_out_top1=top1,
        base_top1=base_top1,
        policy_version=PolicyVersion(policy),
    )


def is_accepted(publication: Publication, newest: DrafterRecord | None) -> bool:
    try:
        check_score(publication, newest, 0.05)
    except InvalidRequestError:
        return False
    return True


def test_the_same_positions_decide_whatever_the_policy_did() -> None:
    assert not is_accepted(offered(0.4, base_top1=0.6, policy=99), RECORD)
    assert is_accepted(offered(0.4, base_top1=0.42, policy=99), RECORD)
    assert is_accepted(offered(0.4, base_top1=0.3), RECORD)


def test_without_them_the_record_counts_as_far_as_the_policy_is_the_same() -> None:
    assert not is_accepted(offered(0.74), RECORD)
    assert is_accepted(offered(0.76), RECORD)
    assert not is_accepted(offered(0.6, policy=12), RECORD)
    assert is_accepted(offered(0.6, policy=14), RECORD)


def test_what_was_never_measured_refuses_nothing() -> None:
    assert is_accepted(offered(0.1), None)
    assert is_accepted(offered(0.1), replace(RECORD, held_out_top1=0.0))


def test_the_refusal_says_what_is_accepted() -> None:
    with pytest.raises(InvalidRequestError, match=r"0\.500; accepted: 0\.750.*0\.800 at policy 10") as refused:
        check_score(offered(0.5), RECORD, 0.05)
    assert refused.value.field == "held_out_top1"


@given(top1=st.floats(0, 1), base=st.none() | st.floats(0, 1), policy=st.integers(0, 50))
def test_a_better_drafter_is_never_refused(top1: float, base: float | None, policy: int) -> None:
    best = max(base if base is not None else 0.0, RECORD.held_out_top1)
    assert is_accepted(offered(max(top1, best), base_top1=base, policy=policy), RECORD)
    check_score(offered(top1, base_top1=base, policy=policy), RECORD, 1.0)
