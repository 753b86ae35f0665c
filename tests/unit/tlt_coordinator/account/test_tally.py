from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import Member, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_coordinator.account.tally import FleetTally

members = st.builds(
    lambda number, state, running, length, drafter, devices: Member(
        hello=WorkerHello(
            worker_id=WorkerId(f"w{number}"), address="a", model="m", device="d", max_running=1, devices=devices
        ),
        status=WorkerStatus(
            state=state, running=running, accept_length=length, drafter_version=DrafterVersion(drafter)
        ),
    ),
    st.integers(0, 4),
    st.sampled_from(WorkerState),
    st.integers(0, 9),
    st.floats(0, 20),
    st.integers(0, 3),
    st.integers(1, 8),
)


@given(st.lists(members, max_size=40))
def test_sums_are_those_over_all_workers_after_any_changes(changes: list[Member]) -> None:
    tally, known = FleetTally(), dict[WorkerId, Member]()
    for member in changes:
        tally.replace(known.get(member.hello.worker_id), member)
        known[member.hello.worker_id] = member
    statuses = [member.status for member in known.values()]
    assert tally.workers == len(known)
    assert tally.by_state == {state: sum(status.state is state for status in statuses) for state in WorkerState}
    assert tally.running == sum(status.running for status in statuses)
    assert tally.devices == sum(member.hello.devices for member in known.values())
    alive = [status for status in statuses if status.state is not WorkerState.DOWN]
    assert all(
        tally.loaded[DrafterVersion(version)] == sum(status.drafter_version == version for status in alive)
        for version in (1, 2, 3)
    )
    lengths = [s.accept_length for s in statuses if s.state is WorkerState.ROLLOUT and s.accept_length > 0]
    if not lengths:
        assert tally.accept_length is None
    else:
        assert tally.accept_length is not None
        assert abs(tally.accept_length - sum(lengths) / len(lengths)) < 1e-6
