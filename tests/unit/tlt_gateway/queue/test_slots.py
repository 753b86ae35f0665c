"""Which worker gets a request that requires a policy version, 0 like any other."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_gateway.pooled import worker
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import NotFoundError
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

pytestmark = pytest.mark.looptime

LARGE = 2**40
VERSIONS = st.sampled_from((0, 1, LARGE))


def slots(served: int, *workers: PooledWorker) -> WorkerSlots:
    def when_changed(callback: Callable[[PooledWorker], None]) -> None:
        for one in workers:
            callback(one)

    pool = SimpleNamespace(version=PolicyVersion(served), when_changed=when_changed, absent_since_s=None)
    return WorkerSlots(cast("WorkerPool", pool), spill_load=0.25, affinity_tokens=256)


def asking(version: int | None, *, continued: bool = False) -> Prompt:
    return Prompt(
        request_id=RequestId("r"),
        token_ids=(1,),
        policy_version=None if version is None else PolicyVersion(version),
        attempt=int(continued),
        prefix_token_ids=(2,) if continued else (),
    )


@given(st.none() | VERSIONS, VERSIONS, st.booleans())
async def test_a_request_gets_a_worker_exactly_if_its_version_is_served_or_it_continues(
    version: int | None, served: int, continued: bool
) -> None:
    prompt = asking(version, continued=continued)
    accepted = version in {None, served} or (continued and version is not None and version < served)
    found = slots(served, worker(served))
    assert found.may_ever_run(prompt)
    if accepted:
        assert found.acquire(prompt) is not None
    else:
        with pytest.raises(NotFoundError, match=f"is {version}; accepted: {served}"):
            found.acquire(prompt)


@given(VERSIONS, VERSIONS, st.integers(0, 1))
async def test_a_worker_with_other_weights_would_never_run_a_request_for_the_served_ones(
    served: int, other: int, room: int
) -> None:
    found, prompt = slots(served, worker(other, slots=room)), asking(served)
    assert found.may_ever_run(prompt) is (other == served)
    assert (found.acquire(prompt) is not None) is (other == served and room > 0)
    assert found.may_ever_run(asking(None))


async def test_without_workers_nobody_knows_what_would_run() -> None:
    assert slots(0).may_ever_run(asking(0))
    assert slots(0).offer != slots(0, worker(0)).offer
